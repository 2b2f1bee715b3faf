// Cloud gives pods their addresses in a cluster whose network is cloud: from the IPv6
// prefix that the cloud has delegated to the pod's machine. It runs on every machine,
// beside the peer.
//
// A cloud tells a machine its prefix by its metadata service; here it is asked by a plain
// GET of --metadata, with %s in it standing for the machine's name. For your cloud, change
// the function ask: on AWS, say, it is latest/meta-data/network/interfaces/macs/MAC/ipv6-prefix,
// with a session's token.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/loop"
)

func main() {
	socket := flag.String("socket", "", "the peer's `socket`; empty for this machine's")
	metadata := flag.String("metadata", "http://169.254.169.254/ipv6-prefix", "the `URL` that tells a machine's prefix; %s stands for its name")
	state := flag.String("state", "", "the `file` that remembers who has which address; empty for one in /var/lib")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if *state == "" {
		*state = "/var/lib/starling-cloud/addresses.json"
	}
	c := &cloud{metadata: *metadata, state: *state}
	if err := loop.Run(ctx, loop.Config{Socket: *socket, Loop: c.loop(), Logger: log}); err != nil {
		log.Error("cloud", "error", err)
		os.Exit(1)
	}
}

type cloud struct {
	metadata string
	state    string
	mu       sync.Mutex // held while the state's file is changed
}

// loop declares one step of every pod: before it takes its address, and again when it has
// moved to another machine, since the cloud sends a prefix to one machine alone.
func (c *cloud) loop() loop.Loop {
	return loop.Loop{
		Name: "cloud",
		Steps: []loop.Step{{
			Name:       "allocate",
			Kind:       "Pod",
			Requires:   []string{"admit"},
			RequiredBy: []string{"address"},
			Reads:      []string{"status.machine"},
			Outputs:    []string{"status.loops.cloud"},
			Claims:     []string{"cloud:ipv6-prefix"},
			Timeout:    10 * time.Second,
			Now:        true,
			Do:         c.allocate,
			Undo:       func(_ context.Context, call loop.Call) error { return c.release(call) },
		}},
	}
}

// allocate returns the pod's address. One that it has already, of the machine's prefix, stays.
func (c *cloud) allocate(ctx context.Context, call loop.Call) (loop.Fields, error) {
	prefix, err := ask(ctx, c.metadata, call.Machine)
	if err != nil {
		return nil, fmt.Errorf("ask for the prefix that the cloud delegates to %s: %w", call.Machine, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	held, err := c.load()
	if err != nil {
		return nil, err
	}
	key := call.Machine + "/" + call.ID
	if a, ok := held[key]; !ok || !prefix.Contains(a) {
		if held[key], err = pick(prefix, call.ID, held); err != nil {
			return nil, err
		}
		if err := c.save(held); err != nil {
			return nil, err
		}
	}
	return loop.Fields{"status.loops.cloud.address": api.Str(held[key].String())}, nil
}

// release gives the address back.
func (c *cloud) release(call loop.Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, err := c.load()
	if err != nil {
		return err
	}
	delete(held, call.Machine+"/"+call.ID)
	return c.save(held)
}

// ask asks the metadata service for a machine's prefix.
func ask(ctx context.Context, url, machine string) (netip.Prefix, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.ReplaceAll(url, "%s", machine), nil)
	if err != nil {
		return netip.Prefix{}, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return netip.Prefix{}, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, 1024))
	if err != nil {
		return netip.Prefix{}, err
	}
	if answer.StatusCode != http.StatusOK {
		return netip.Prefix{}, fmt.Errorf("the metadata service answers %s", answer.Status)
	}
	p, err := netip.ParsePrefix(strings.TrimSpace(string(raw)))
	if err == nil && (!p.Addr().Is6() || p.Bits() > 112) {
		err = fmt.Errorf("%s is no IPv6 prefix with room for pods", p)
	}
	return p.Masked(), err
}

// pick chooses the address that the pod's identity hashes to, or the next that is free.
// The prefix's first 16 addresses are left to the cloud.
func pick(p netip.Prefix, id string, held map[string]netip.Addr) (netip.Addr, error) {
	used := map[netip.Addr]bool{}
	for _, a := range held {
		used[a] = true
	}
	for try := range 1000 {
		a := p.Addr().As16()
		sum := sha256.Sum256(fmt.Append(nil, id, try))
		copy(a[14:], sum[:2]) // 65,536 addresses are enough for one machine
		if addr := netip.AddrFrom16(a); !used[addr] && (a[14] != 0 || a[15] >= 16) {
			return addr, nil
		}
	}
	return netip.Addr{}, &loop.Failure{Code: "PrefixFull", Wait: true, Message: fmt.Sprintf("prefix %s has no free address", p)}
}

func (c *cloud) load() (map[string]netip.Addr, error) {
	held := map[string]netip.Addr{}
	raw, err := os.ReadFile(c.state)
	if errors.Is(err, os.ErrNotExist) {
		return held, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &held)
	}
	if err != nil {
		return nil, fmt.Errorf("read who has which address: %w", err)
	}
	return held, nil
}

// save replaces the file, so that there is always a whole one.
func (c *cloud) save(held map[string]netip.Addr) error {
	raw, err := json.MarshalIndent(held, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(c.state), 0o700)
	}
	if err == nil {
		err = os.WriteFile(c.state+".new", raw, 0o600)
	}
	if err == nil {
		err = os.Rename(c.state+".new", c.state)
	}
	if err != nil {
		return fmt.Errorf("remember who has which address: %w", err)
	}
	return nil
}

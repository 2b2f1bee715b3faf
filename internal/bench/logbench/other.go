package logbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"starling.dev/starling/client"
	"starling.dev/starling/internal/bench/durable"
	"starling.dev/starling/internal/bench/rig"
)

// A peer that is compared with another program is a process of its own, as that is: the
// clients, which are in this process, share neither its heap nor its turn on a core.

// roleServe is the role of a process that serves the API of a new cluster.
const roleServe = "serve"

// served tells that process what to serve.
type served struct {
	Dir, Socket string
	Objects     int
}

// otherPeer is the process, with a connection for each client.
type otherPeer struct {
	cmd   *exec.Cmd
	stop  io.Closer // its standard input: it ends with it
	conns []*client.Client
}

// startPeer starts a process that holds so many objects and serves them.
func (b *bench) startPeer(name string, objects int) (*otherPeer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	what := served{Dir: filepath.Join(b.dir, name), Socket: filepath.Join(b.dir, name+".sock"), Objects: objects}
	terms, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), RoleEnv+"="+roleServe, "STARLING_BENCH_SERVE="+string(terms))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a peer's process: %w", err)
	}
	p := &otherPeer{cmd: cmd, stop: in}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for the peer's process: %w", err), p.Close())
	}
	for range clients {
		p.conns = append(p.conns, client.New(what.Socket))
	}
	return p, nil
}

// CPU is the CPU time of the process and of this one.
func (p *otherPeer) CPU() (time.Duration, error) { return durable.WithCPUOf(p.cmd.Process.Pid) }

// Close ends the process.
func (p *otherPeer) Close() error {
	for _, c := range p.conns {
		c.Close()
	}
	return errors.Join(p.stop.Close(), p.cmd.Wait())
}

// serve is that process: it says a line once it serves, and ends with its input.
func serve() (err error) {
	var what served
	if err := json.Unmarshal([]byte(os.Getenv("STARLING_BENCH_SERVE")), &what); err != nil {
		return fmt.Errorf("read what to serve: %w", err)
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r, err := rig.Open(rig.Config{Dir: what.Dir, Machine: 1, Machines: 1, Logger: logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	r.Start()
	if what.Objects > 0 {
		if err := r.Fill(context.Background(), what.Objects); err != nil {
			return err
		}
	}
	if err := r.Serve(what.Socket); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

package durable

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// ErrNoEtcd: there is no etcd program on this machine (Debian: etcd-server).
var ErrNoEtcd = errors.New("no etcd program found")

// Etcd is a single etcd on loopback.
type Etcd struct {
	cmd   *exec.Cmd
	log   *os.File
	conns []*grpc.ClientConn // one per client, so that none waits for another's stream
	puts  []uint64           // of each client; each element belongs to its client
	value []byte
}

// StartEtcd starts etcd with its data under dir, which should be on the disk that is
// compared, and connects the clients. Close ends it.
func StartEtcd(ctx context.Context, dir string, clients, valueSize int) (*Etcd, error) {
	program, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEtcd, err)
	}
	addrs, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	e := &Etcd{puts: make([]uint64, clients), value: make([]byte, valueSize)}
	if err := e.start(program, dir, addrs[0], addrs[1]); err != nil {
		return nil, err
	}
	if err := e.connect(ctx, addrs[0], clients); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Etcd) start(program, dir, client, peer string) (err error) {
	if e.log, err = os.Create(filepath.Join(dir, "etcd.log")); err != nil {
		return fmt.Errorf("create etcd's log: %w", err)
	}
	e.cmd = exec.Command(program,
		"--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", "http://"+client, "--advertise-client-urls", "http://"+client,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer,
		"--initial-cluster", "default=http://"+peer)
	e.cmd.Stdout, e.cmd.Stderr = e.log, e.log
	if err := e.cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start etcd: %w", err), e.log.Close())
	}
	return nil
}

// connect waits until etcd has elected itself: its first answered write says so.
func (e *Etcd) connect(ctx context.Context, addr string, clients int) error {
	for range clients {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return fmt.Errorf("connect to etcd: %w", err)
		}
		e.conns = append(e.conns, conn)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for client := range clients {
		if err := e.Put(ctx, client); err != nil {
			return fmt.Errorf("wait for etcd (its log is %s): %w", e.log.Name(), err)
		}
	}
	return nil
}

// Put is a [Write]: it puts a value under a key that is new each time, as entries of
// a log are.
func (e *Etcd) Put(ctx context.Context, client int) error {
	e.puts[client]++
	key := fmt.Appendf(nil, "/bench/%04d/%012d", client, e.puts[client])
	request := appendField(appendField(nil, 1, key), 2, e.value)
	var response []byte
	err := e.conns[client].Invoke(ctx, "/etcdserverpb.KV/Put", &request, &response,
		grpc.ForceCodecV2(rawCodec{}), grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	return nil
}

// Range is a linearizable read of the client's first value, etcd's default.
func (e *Etcd) Range(ctx context.Context, client int) error {
	request := appendField(nil, 1, fmt.Appendf(nil, "/bench/%04d/%012d", client, 1))
	var response []byte
	err := e.conns[client].Invoke(ctx, "/etcdserverpb.KV/Range", &request, &response,
		grpc.ForceCodecV2(rawCodec{}), grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("range: %w", err)
	}
	if len(response) < len(e.value) {
		return fmt.Errorf("range: the answer of %d bytes does not hold the value", len(response))
	}
	return nil
}

// Close ends etcd and waits for it.
func (e *Etcd) Close() error {
	var errs []error
	for _, c := range e.conns {
		errs = append(errs, c.Close())
	}
	errs = append(errs, e.cmd.Process.Kill())
	_ = e.cmd.Wait() // it was killed, and says so
	return errors.Join(append(errs, e.log.Close())...)
}

// freeAddresses finds loopback ports that nobody listens on.
func freeAddresses(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

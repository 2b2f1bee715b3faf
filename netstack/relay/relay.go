package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/service"
)

// dialTimeout is how long one pod may take to accept; then another is tried.
const dialTimeout = 2 * time.Second

// listenAgain is how soon an address that could not be listened at is tried again.
const listenAgain = time.Second

// Relay listens where it is told. Its methods may be called concurrently.
type Relay struct {
	log *slog.Logger

	mu     sync.Mutex // guards what follows
	want   map[service.Where][]netip.AddrPort
	failed map[service.Where]error
	closed map[service.Where]context.CancelFunc
	nudged chan struct{} // holds one: want is another
}

// New returns a relay that listens nowhere.
func New(log *slog.Logger) *Relay {
	return &Relay{
		log: log, want: map[service.Where][]netip.AddrPort{}, failed: map[service.Where]error{},
		closed: map[service.Where]context.CancelFunc{}, nudged: make(chan struct{}, 1),
	}
}

// String names the task.
func (r *Relay) String() string { return "relay" }

// Set says where to listen, and where connections go. What is open goes on.
func (r *Relay) Set(list []service.Forward) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = map[service.Where][]netip.AddrPort{}
	for _, f := range list {
		r.want[f.Where] = f.Endpoints
	}
	select {
	case r.nudged <- struct{}{}:
	default:
	}
}

// Failed says where the relay can't listen, and why.
func (r *Relay) Failed() map[service.Where]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed := map[service.Where]error{}
	for w, err := range r.failed {
		failed[w] = err
	}
	return failed
}

// Run listens until the context ends.
func (r *Relay) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	for {
		retry := r.settle(ctx, &tasks)
		select {
		case <-ctx.Done():
			return nil
		case <-r.nudged:
		case <-retry:
		}
	}
}

// settle makes the listeners those that are wanted.
func (r *Relay) settle(ctx context.Context, tasks *sync.WaitGroup) (retry <-chan time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w, stop := range r.closed {
		if _, ok := r.want[w]; !ok {
			stop()
			delete(r.closed, w)
		}
	}
	clear(r.failed)
	for w := range r.want {
		if r.closed[w] != nil {
			continue
		}
		one, stop := context.WithCancel(ctx)
		if err := r.listen(ctx, one, w, tasks); err != nil {
			stop()
			r.failed[w] = err
			retry = time.After(listenAgain)
			continue
		}
		r.closed[w] = stop
	}
	return retry
}

// listen opens a socket and serves it until the context ends; connections go on until life
// does. The address may be one that the machine is about to get.
func (r *Relay) listen(life, ctx context.Context, w service.Where, tasks *sync.WaitGroup) error {
	config := net.ListenConfig{Control: freebind}
	at := netip.AddrPortFrom(w.Address, w.Port).String()
	if w.Protocol == "udp" {
		c, err := config.ListenPacket(ctx, "udp4", at)
		if err != nil {
			return fmt.Errorf("listen at %s: %w", w, err)
		}
		tasks.Go(func() { r.servePackets(ctx, c.(*net.UDPConn), w) })
		return nil
	}
	l, err := config.Listen(ctx, "tcp4", at)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", w, err)
	}
	tasks.Go(func() { r.serve(life, ctx, l, w) })
	return nil
}

// targets are where connections go now, in a random order.
func (r *Relay) targets(w service.Where) []netip.AddrPort {
	r.mu.Lock()
	list := slices.Clone(r.want[w])
	r.mu.Unlock()
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (r *Relay) serve(life, ctx context.Context, l net.Listener, w service.Where) {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var open sync.WaitGroup
	defer open.Wait()
	for {
		client, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				client.Close()
			}
			return
		}
		if err != nil {
			r.log.Warn("take a connection", "at", w, "error", err)
			if !pause(ctx, listenAgain) { // no descriptors left, say
				return
			}
			continue
		}
		open.Go(func() { r.carry(life, client.(*net.TCPConn), w) })
	}
}

// carry joins a client's connection with one to a pod. Connections that are open go on
// when the relay no longer listens, but not when the peer ends.
func (r *Relay) carry(ctx context.Context, client *net.TCPConn, w service.Where) {
	defer client.Close()
	for _, to := range r.targets(w) {
		dialer := net.Dialer{Timeout: dialTimeout}
		conn, err := dialer.DialContext(ctx, "tcp6", to.String())
		if err != nil {
			continue
		}
		pod := conn.(*net.TCPConn)
		defer pod.Close()
		defer context.AfterFunc(ctx, func() { client.Close(); pod.Close() })()
		var back sync.WaitGroup
		back.Go(func() { half(client, pod) })
		half(pod, client)
		back.Wait()
		return
	}
	_ = client.SetLinger(0) // a reset: nobody took it
}

// half copies one direction, and passes its end on.
func half(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		to.SetLinger(0)
		to.Close()
		return
	}
	_ = to.CloseWrite()
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func freebind(_, _ string, c rawConn) error {
	var err error
	return errors.Join(c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
	}), err)
}

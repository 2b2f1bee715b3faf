package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"starling.dev/starling/api"
	"starling.dev/starling/oci"
)

// ask puts one probe to a container and returns what is wrong with the answer.
func (p *prober) ask(ctx context.Context, w watch, probe api.Probe) error {
	asking, cancel := context.WithTimeout(ctx, probe.Timeout)
	defer cancel()
	err := p.askBy(asking, w, probe)
	if err != nil && errors.Is(asking.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("there was no answer within %s", api.FormatDuration(probe.Timeout))
	}
	return err
}

func (p *prober) askBy(ctx context.Context, w watch, probe api.Probe) error {
	switch {
	case probe.HTTP != "":
		return p.askHTTP(ctx, w, probe.HTTP)
	case probe.TCP != 0:
		return p.askTCP(ctx, w, probe.TCP)
	case probe.GRPC != 0:
		return p.askGRPC(ctx, w, probe.GRPC)
	}
	return p.askExec(ctx, w, probe.Exec)
}

// askHTTP takes the answer as it is: a redirect is a good one, and is not followed.
func (p *prober) askHTTP(ctx context.Context, w watch, where string) error {
	port, path, err := api.ParseHTTPProbe(where)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.key.Name+path, nil)
	if err != nil {
		return fmt.Errorf("ask for %q: %w", path, err)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx, w.id, port) },
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("the answer is %s", answer.Status)
	}
	return nil
}

func (p *prober) askTCP(ctx context.Context, w watch, port uint16) error {
	conn, err := p.dial(ctx, w.id, port)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (p *prober) askGRPC(ctx context.Context, w watch, port uint16) error {
	conn, err := grpc.NewClient("passthrough:///"+w.key.Name,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.dial(ctx, w.id, port) }))
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if s := answer.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the answer is %s", s)
	}
	return nil
}

func (p *prober) askExec(ctx context.Context, w watch, args []string) error {
	code, output, err := p.exec(ctx, w.id, w.container.Name, args)
	if err != nil {
		return err
	}
	if code == 0 {
		return nil
	}
	if output != "" {
		return fmt.Errorf("it exited with code %d: %s", code, output)
	}
	return fmt.Errorf("it exited with code %d", code)
}

// maxProbeOutput bounds what is kept of a probe's output, for its message.
const maxProbeOutput = 256

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex // guards buf: both streams of a command are written to it
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	t.buf = t.buf[max(0, len(t.buf)-maxProbeOutput):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(bytes.ToValidUTF8(t.buf, []byte("?"))))
}

// probeExec runs a probe's command in a container.
func probeExec(runtime *oci.Runtime) func(context.Context, string, string, []string) (uint32, string, error) {
	return func(ctx context.Context, podID, container string, args []string) (uint32, string, error) {
		out := &tail{}
		code, err := runtime.Exec(ctx, podID, container, oci.ExecSpec{Args: args, Stdout: out, Stderr: out})
		return code, out.String(), err
	}
}

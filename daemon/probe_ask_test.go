package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"starling.dev/starling/api"
)

// asking is a prober whose pods' ports are addresses on this machine.
func asking(t *testing.T, ports map[uint16]string) *prober {
	t.Helper()
	return &prober{
		dial: func(ctx context.Context, _ string, port uint16) (net.Conn, error) {
			address, ok := ports[port]
			if !ok {
				return nil, errors.New("connection refused")
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
		exec: func(_ context.Context, _, container string, args []string) (uint32, string, error) {
			if args[0] == "true" {
				return 0, "", nil
			}
			return 3, "no luck in " + container, nil
		},
	}
}

// grpcServer serves the health service, and returns its address.
func grpcServer(t *testing.T) (*health.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, status := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, status)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return status, l.Addr().String()
}

func TestAsk(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/nowhere", http.StatusFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	status, address := grpcServer(t)
	p := asking(t, map[uint16]string{80: web.Listener.Addr().String(), 90: address})
	for _, tt := range []struct {
		probe api.Probe
		says  string // "" for a good answer
	}{
		{api.Probe{HTTP: ":80/ready"}, ""},
		{api.Probe{HTTP: ":80/moved"}, ""},
		{api.Probe{HTTP: ":80/nosuch"}, "the answer is 404 Not Found"},
		{api.Probe{HTTP: ":81/"}, "connection refused"},
		{api.Probe{HTTP: ":80/slow", Timeout: 50 * time.Millisecond}, "there was no answer within 50ms"},
		{api.Probe{TCP: 80}, ""},
		{api.Probe{TCP: 81}, "connection refused"},
		{api.Probe{GRPC: 90}, ""},
		{api.Probe{GRPC: 80}, "Unavailable"},
		{api.Probe{Exec: []string{"true"}}, ""},
		{api.Probe{Exec: []string{"false"}}, "it exited with code 3: no luck in app"},
	} {
		if tt.probe.Timeout == 0 {
			tt.probe.Timeout = 10 * time.Second
		}
		err := p.ask(t.Context(), watch{key: api.Key{Name: "web"}, container: api.Container{Name: "app"}}, tt.probe)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v, want %q", tt.probe, err, tt.says)
		}
	}
	status.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	err := p.ask(t.Context(), watch{}, api.Probe{GRPC: 90, Timeout: 10 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "NOT_SERVING") {
		t.Errorf("a service that does not serve: %v", err)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	out := &tail{}
	for i := range 100 {
		fmt.Fprintf(out, "line %d\n", i)
	}
	if s := out.String(); len(s) > maxProbeOutput || !strings.HasSuffix(s, "line 99") {
		t.Errorf("kept %q", s)
	}
}

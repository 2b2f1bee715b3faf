package site

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"starling.dev/starling/netstack/service"
)

// world is a server with services whose pods are servers of the test.
type world struct {
	t           *testing.T
	http, https netip.AddrPort
	pods        map[string][]netip.AddrPort // by service
	server      *Server
}

func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func newWorld(t *testing.T, edit func(*Config)) *world {
	w := &world{t: t, http: freePort(t), https: freePort(t), pods: map[string][]netip.AddrPort{}}
	cfg := Config{
		HTTP: w.http, HTTPS: w.https, Log: slog.New(slog.DiscardHandler),
		Endpoints: func(k service.Key, _ uint16) []netip.AddrPort { return w.pods[k.Name] },
	}
	if edit != nil {
		edit(&cfg)
	}
	var err error
	if w.server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// pod adds a pod to a service, and returns its server.
func (w *world) pod(name string, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	w.t.Cleanup(s.Close)
	w.pods[name] = append(w.pods[name], s.Listener.Addr().(*net.TCPAddr).AddrPort())
	return s
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text) }
}

// serve sets the sites and waits until they are served.
func (w *world) serve(sites ...Site) {
	w.t.Helper()
	w.server.Set(sites)
	deadline := time.After(10 * time.Second)
	for ticker := time.NewTicker(5 * time.Millisecond); ; {
		if conn, err := net.Dial("tcp", w.https.String()); err == nil {
			conn.Close()
			return
		}
		select {
		case <-deadline:
			w.t.Fatalf("sites are not served: %v", w.server.Failed())
		case <-ticker.C:
		}
	}
}

// ask makes a request to a URL whose host is not looked up.
func (w *world) ask(method, url string, body io.Reader) (answer *http.Response, text string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, url, body)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err = w.client(nil).Do(r)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, url, err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer, strings.TrimSpace(string(raw))
}

func (w *world) client(trust *tls.Config) *http.Client {
	transport := &http.Transport{
		TLSClientConfig: trust, ForceAttemptHTTP2: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			to := w.http
			if strings.HasSuffix(address, ":443") {
				to = w.https
			}
			return new(net.Dialer).DialContext(ctx, network, to.String())
		},
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// to is a route to services with equal weights.
func to(path string, services ...string) Route {
	r := Route{Path: path, Port: 80, Timeout: 10 * time.Second, Retries: 2}
	for _, s := range services {
		r.Backends = append(r.Backends, Backend{s, 1})
	}
	return r
}

func named(name string, hosts []string, routes ...Route) Site {
	return Site{Key: service.Key{Namespace: "default", Name: name}, Hosts: hosts, Routes: routes}
}

// Requests find their service by host, then by the longest path, by whole segments.
func TestRoutes(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"shop", "cart", "wild", "rest"} {
		w.pod(name, says(name))
	}
	w.serve(
		named("a", []string{"shop.example"}, to("/", "shop"), to("/cart/", "cart")),
		named("b", []string{"*.example"}, to("/only", "wild")),
		named("c", nil, to("/", "rest")),
	)
	for url, want := range map[string]string{
		"http://shop.example/":         "200 shop",
		"http://SHOP.example./x":       "200 shop",
		"http://shop.example:80/cart":  "200 cart",
		"http://shop.example/cart/1":   "200 cart",
		"http://shop.example/cartwash": "200 shop",
		"http://www.example/only":      "200 wild",
		"http://www.example/":          `404 starling: site b has no route for "/"`,
		"http://a.b.example/":          "200 rest",
	} {
		answer, text := w.ask(http.MethodGet, url, nil)
		if got := fmt.Sprintf("%d %s", answer.StatusCode, text); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	w.server.Set([]Site{named("a", []string{"shop.example"}, to("/", "shop"))})
	if answer, _ := w.ask(http.MethodGet, "http://other.example/", nil); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a host of no site: %s", answer.Status)
	}
}

// Pods see who asked for what.
func TestForwarded(t *testing.T) {
	w := newWorld(t, nil)
	w.pod("web", func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, r.Host, r.URL, " ", r.Header.Get("X-Forwarded-For"), " ", r.Header.Get("X-Forwarded-Proto"))
	})
	w.serve(named("a", nil, to("/", "web")))
	if _, text := w.ask(http.MethodGet, "http://shop.example/a?b=c", nil); text != "shop.example/a?b=c 127.0.0.1 http" {
		t.Errorf("the pod saw %q", text)
	}
}

// Requests are split by weight; the share of a service without pods goes to the others.
func TestWeights(t *testing.T) {
	w := newWorld(t, nil)
	w.pod("old", says("old"))
	w.pod("new", says("new"))
	route := to("/", "old", "new", "none", "gone")
	for i, weight := range []int{70, 30, 0, 900} {
		route.Backends[i].Weight = weight
	}
	w.serve(named("a", nil, route))
	count := map[string]int{}
	for range 400 {
		_, text := w.ask(http.MethodGet, "http://x/", nil)
		count[text]++
	}
	if n := count["new"]; n < 80 || n > 160 || count["old"]+n != 400 {
		t.Errorf("400 requests went to %v, want about 280 old and 120 new", count)
	}
}

// A pod that takes no connections is passed over, for every request; one that fails later
// only for what may be repeated.
func TestRetries(t *testing.T) {
	w := newWorld(t, nil)
	w.pods["web"] = []netip.AddrPort{freePort(t)}
	w.pod("web", says("well"))
	w.serve(named("a", nil, to("/", "web")), named("b", []string{"broken"}, to("/", "broken")))
	for range 20 {
		answer, text := w.ask(http.MethodPost, "http://x/", strings.NewReader("body"))
		if answer.StatusCode != http.StatusOK || text != "well" {
			t.Fatalf("%s: %s", answer.Status, text)
		}
	}
	var asked atomic.Int32
	for range 2 {
		w.pod("broken", func(http.ResponseWriter, *http.Request) {
			asked.Add(1)
			panic(http.ErrAbortHandler)
		})
	}
	for method, want := range map[string]int32{http.MethodGet: 2, http.MethodPost: 1} {
		asked.Store(0)
		answer, _ := w.ask(method, "http://broken/", nil)
		// With its transport's own rule, net/http asks the second time by itself.
		if n := asked.Load(); n != want || answer.StatusCode/100 != 5 {
			t.Errorf("%s: asked %d pods, want %d: %s", method, n, want, answer.Status)
		}
	}
}

func TestTimeoutAndNoPod(t *testing.T) {
	w := newWorld(t, nil)
	release := make(chan struct{})
	w.pod("slow", func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" { // the answer has begun: its body may take its time
			rw.(http.Flusher).Flush()
		}
		<-release
		fmt.Fprint(rw, "at last")
	})
	route := to("/", "slow")
	route.Timeout = 100 * time.Millisecond
	w.serve(named("a", []string{"slow"}, route), named("b", nil, to("/", "nobody")))
	if answer, text := w.ask(http.MethodGet, "http://slow/", nil); answer.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("%s: %s", answer.Status, text)
	}
	time.AfterFunc(300*time.Millisecond, func() { close(release) })
	if answer, text := w.ask(http.MethodGet, "http://slow/begun", nil); answer.StatusCode != http.StatusOK || text != "at last" {
		t.Errorf("%s: %s", answer.Status, text)
	}
	if answer, text := w.ask(http.MethodGet, "http://x/", nil); answer.StatusCode != http.StatusServiceUnavailable || text != "starling: no pod of the service is ready" {
		t.Errorf("%s: %s", answer.Status, text)
	}
}

// A connection that is upgraded, as a WebSocket is, carries both ways.
func TestUpgrade(t *testing.T) {
	w := newWorld(t, nil)
	w.pod("chat", func(rw http.ResponseWriter, r *http.Request) {
		conn, buf, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(buf, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		buf.Flush()
		_, _ = io.Copy(conn, buf)
	})
	w.serve(named("a", nil, to("/", "chat")))
	conn, err := net.Dial("tcp", w.http.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", answer, err)
	}
	for _, word := range []string{"one\n", "two\n"} {
		fmt.Fprint(conn, word)
		if got, err := r.ReadString('\n'); err != nil || got != word {
			t.Errorf("sent %q, got %q, %v", word, got, err)
		}
	}
}

// A site with a certificate speaks HTTP/2 and HTTP/1.1 over TLS, sends HTTP there, and
// takes a new certificate when the file is another. Pods are spoken to in the protocol of
// the route.
func TestCertificateFromFiles(t *testing.T) {
	w := newWorld(t, nil)
	echo := func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, r.Proto) }
	w.pod("web", echo)
	dir := t.TempDir()
	files := TLS{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	first := writeCertificate(t, files, "shop.example", time.Now())
	two := to("/two", "web")
	two.HTTP2 = true
	s := named("a", []string{"shop.example"}, to("/", "web"), two)
	s.TLS = files
	w.serve(s)
	if answer, _ := w.ask(http.MethodGet, "http://shop.example/a?b", nil); answer.StatusCode != http.StatusPermanentRedirect ||
		answer.Header.Get("Location") != "https://shop.example/a?b" {
		t.Errorf("by HTTP: %s to %s", answer.Status, answer.Header.Get("Location"))
	}
	get := func(trust *tls.Config, path string) string {
		answer, err := w.client(trust).Get("https://shop.example" + path)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		raw, _ := io.ReadAll(answer.Body)
		return answer.Proto + " to " + string(raw)
	}
	if got := get(first, "/"); got != "HTTP/2.0 to HTTP/1.1" {
		t.Errorf("got %s", got)
	}
	if got := get(first, "/two"); got != "HTTP/2.0 to HTTP/2.0" {
		t.Errorf("got %s", got)
	}
	second := writeCertificate(t, files, "shop.example", time.Now().Add(time.Minute))
	if got := get(second, "/"); got != "HTTP/2.0 to HTTP/1.1" {
		t.Errorf("with the new certificate: %s", got)
	}
	if got := get(first, "/"); !strings.Contains(got, "certificate") {
		t.Errorf("the old certificate is served: %s", got)
	}
}

// A port that another program has is named, and served as soon as it is free.
func TestPortInUse(t *testing.T) {
	w := newWorld(t, nil)
	w.pod("web", says("web"))
	other, err := net.Listen("tcp", w.https.String())
	if err != nil {
		t.Fatal(err)
	}
	w.server.Set([]Site{named("a", nil, to("/", "web"))})
	for deadline := time.Now().Add(10 * time.Second); w.server.Failed() == nil; {
		if time.Now().After(deadline) {
			t.Fatal("nobody says that the port is in use")
		}
	}
	if err := w.server.Failed(); !strings.Contains(err.Error(), "listen for HTTPS") {
		t.Errorf("got %v", err)
	}
	other.Close()
	w.serve(named("a", nil, to("/", "web")))
	if _, text := w.ask(http.MethodGet, "http://x/", nil); text != "web" {
		t.Errorf("got %q", text)
	}
}

func touch(t *testing.T, name string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

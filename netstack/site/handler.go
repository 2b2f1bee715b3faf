package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
)

// handler takes requests to pods.
type handler struct {
	table     atomic.Pointer[table]
	endpoints Endpoints
	// challenge answers a certificate authority, and reports whether it was one who asked.
	challenge func(http.ResponseWriter, *http.Request) bool
	proxy     *httputil.ReverseProxy
}

func newHandler(endpoints Endpoints, log *slog.Logger) *handler {
	h := &handler{endpoints: endpoints, challenge: func(http.ResponseWriter, *http.Request) bool { return false }}
	h.table.Store(newTable(nil))
	h.proxy = &httputil.ReverseProxy{
		Transport: newPods(), FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "pod"}) // which one is chosen later
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			log.Debug("a request was not answered", "host", r.Host, "path", r.URL.Path, "error", err)
			http.Error(w, fmt.Sprintf("starling: %s", reason(err)), status(err))
		},
	}
	return h
}

// status is what a client is told of a request that no pod answered.
func status(err error) int {
	switch {
	case errors.Is(err, errTooLate):
		return http.StatusGatewayTimeout
	case errors.Is(err, errNoPod):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}

// reason says it without addresses of the cluster.
func reason(err error) string {
	for _, known := range []error{errTooLate, errNoPod} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "no pod took the request"
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil && h.challenge(w, r) {
		return
	}
	host := hostOf(r)
	s, ok := h.table.Load().site(host)
	if !ok {
		http.Error(w, fmt.Sprintf("starling: no site has the host %q", host), http.StatusNotFound)
		return
	}
	if s.TLS.On() && r.TLS == nil {
		http.Redirect(w, r, "https://"+host+r.URL.RequestURI(), http.StatusPermanentRedirect)
		return
	}
	route, ok := s.route(r.URL.Path)
	if !ok {
		http.Error(w, fmt.Sprintf("starling: site %s has no route for %q", s.Name, r.URL.Path), http.StatusNotFound)
		return
	}
	c := choice{route, s.Namespace, h.endpoints}
	h.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), choiceKey{}, c)))
}

// hostOf is the host that the client named, without its port, in lower case.
func hostOf(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

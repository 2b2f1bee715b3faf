package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"time"

	"starling.dev/starling/netstack/service"
)

// Errors of a request that no pod answered.
var (
	errNoPod    = errors.New("no pod of the service is ready")
	errTooLate  = errors.New("the pod did not begin its answer in time")
	dialTimeout = 2 * time.Second
)

// pods sends one route's requests to pods: it is the proxy's transport.
type pods struct {
	http1, http2 http.RoundTripper
}

func newPods() *pods {
	dial := (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext
	transport := func(protocols *http.Protocols) *http.Transport {
		return &http.Transport{
			DialContext: dial, Protocols: protocols, DisableCompression: true,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second,
		}
	}
	one, two := new(http.Protocols), new(http.Protocols)
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true)
	return &pods{transport(one), transport(two)}
}

// choice is what a request needs to find its pod.
type choice struct {
	route     Route
	namespace string
	endpoints Endpoints
}

type choiceKey struct{}

// pick draws a service by weight, among those that have pods, and one of its pods, but for
// those that were tried.
func (c choice) pick(tried map[netip.AddrPort]bool) (netip.AddrPort, error) {
	type share struct {
		weight int
		pods   []netip.AddrPort
	}
	var shares []share
	sum := 0
	for _, b := range c.route.Backends {
		s := share{weight: b.Weight}
		for _, at := range c.endpoints(service.Key{Namespace: c.namespace, Name: b.Service}, c.route.Port) {
			if !tried[at] {
				s.pods = append(s.pods, at)
			}
		}
		if len(s.pods) > 0 && s.weight > 0 {
			shares = append(shares, s)
			sum += s.weight
		}
	}
	if sum == 0 {
		return netip.AddrPort{}, errNoPod
	}
	n := rand.IntN(sum)
	for _, s := range shares {
		if n -= s.weight; n < 0 {
			return s.pods[rand.IntN(len(s.pods))], nil
		}
	}
	panic("a number below the sum of all weights is below some partial sum")
}

// RoundTrip implements http.RoundTripper.
func (p *pods) RoundTrip(r *http.Request) (*http.Response, error) {
	c := r.Context().Value(choiceKey{}).(choice)
	transport := p.http1
	if c.route.HTTP2 {
		transport = p.http2
	}
	tried := map[netip.AddrPort]bool{}
	var last error
	for range c.route.Retries + 1 {
		at, err := c.pick(tried)
		if err != nil {
			return nil, errors.Join(last, err)
		}
		tried[at] = true
		answer, err := ask(transport, r, at, c.route.Timeout)
		if err == nil {
			return answer, nil
		}
		last = fmt.Errorf("pod at %s: %w", at, err)
		if r.Context().Err() != nil || !mayRepeat(r, err) {
			return nil, last
		}
	}
	return nil, last
}

// ask sends the request to one pod, which has to begin its answer in time. The answer's
// body may take as long as it likes.
func ask(transport http.RoundTripper, r *http.Request, at netip.AddrPort, timeout time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	out := r.Clone(ctx)
	out.URL.Host = at.String()
	if r.Body != nil {
		out.Body = io.NopCloser(r.Body) // a transport closes it also if it never got to read it
	}
	timer := time.AfterFunc(timeout, func() { cancel(errTooLate) })
	answer, err := transport.RoundTrip(out)
	timer.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), errTooLate) {
			err = errTooLate
		}
		cancel(err)
		return nil, err
	}
	context.AfterFunc(r.Context(), func() { cancel(context.Canceled) })
	return answer, nil
}

// mayRepeat reports whether a request that failed can be given to another pod: if it never
// reached one, or if asking twice is as good as once and there is no body that was used up.
func mayRepeat(r *http.Request, err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	if errors.Is(err, errTooLate) || (r.Body != nil && r.Body != http.NoBody) {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

package calls

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	apiv1 "starling.dev/starling/api/v1"
)

// ErrNotSpoken says that the other side does not know this protocol, or did not get as
// far: nothing was called, and the service is to be called by HTTP.
var ErrNotSpoken = errors.New("the peer does not answer calls without HTTP")

// ErrRefused is the [ErrNotSpoken] of a peer that said so, and will say so again.
var ErrRefused = errors.New("the upgrade was refused")

// Caller calls the procedures of one peer. It is safe for concurrent use. Close frees its
// connections.
type Caller struct {
	dial func(context.Context) (net.Conn, error)

	mu     sync.Mutex // guards what follows
	idle   []*line
	closed bool
}

// maxIdle bounds the connections that are kept for further calls.
const maxIdle = 64

// NewCaller returns a caller that opens its connections with dial.
func NewCaller(dial func(context.Context) (net.Conn, error)) *Caller { return &Caller{dial: dial} }

// line is one connection, used by one call at a time.
type line struct {
	conn  net.Conn
	read  reader
	frame []byte
	used  bool // for a call before
}

// Call calls a procedure and reads its answer into res. Errors are those that a client of
// package connect gets, or [ErrNotSpoken].
func (c *Caller) Call(ctx context.Context, procedure string, req, res proto.Message) error {
	if err := ctx.Err(); err != nil {
		return endOf(err)
	}
	for {
		l, err := c.take(ctx)
		if err != nil {
			return err
		}
		sent, err := c.on(ctx, l, procedure, req, res)
		if err != nil && !sent && l.used && ctx.Err() == nil {
			continue // the peer has closed a connection that was idle: it never saw this
		}
		return err
	}
}

// on makes a call on a connection. sent reports whether the peer may have got it.
func (c *Caller) on(ctx context.Context, l *line, procedure string, req, res proto.Message) (sent bool, err error) {
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
	}
	sent, whole, err := l.call(procedure, req, res)
	if stop() && whole {
		c.put(l)
		return sent, err
	}
	l.conn.Close()
	if err != nil && ctx.Err() != nil {
		return sent, endOf(ctx.Err())
	}
	return sent, err
}

// call writes the request and reads the answer. whole reports whether the connection is
// good for another call.
func (l *line) call(procedure string, req, res proto.Message) (sent, whole bool, err error) {
	frame, err := proto.MarshalOptions{}.MarshalAppend(short(begin(l.frame), procedure), req)
	if err == nil {
		frame, err = finish(frame, MaxRequest)
	}
	if err != nil {
		return true, true, connect.NewError(connect.CodeInvalidArgument, err)
	}
	if l.frame = frame; cap(frame) > kept {
		l.frame = nil
	}
	if _, err := l.conn.Write(frame); err != nil {
		return false, false, connect.NewError(connect.CodeUnavailable, err)
	}
	got, err := l.read.next()
	if err != nil {
		return true, false, connect.NewError(connect.CodeUnavailable, noEOF(err))
	}
	message, fault, err := answer(got)
	if err == nil && fault.status == 0 {
		err = proto.Unmarshal(message, res)
	}
	if err != nil {
		return true, false, connect.NewError(connect.CodeInternal, fmt.Errorf("read the answer: %w", err))
	}
	return true, true, fault.err()
}

// err is the failure as a client of package connect gets it.
func (f failure) err() error {
	if f.status == 0 {
		return nil
	}
	err := connect.NewWireError(f.status, errors.New(f.text))
	if f.code != "" {
		err.Meta().Set(apiv1.CodeHeader, f.code)
	}
	return err
}

func endOf(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	return connect.NewError(connect.CodeCanceled, err)
}

// take returns an idle connection, or a new one.
func (c *Caller) take(ctx context.Context) (*line, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		l := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		l.used = true
		return l, nil
	}
	c.mu.Unlock()
	return c.open(ctx)
}

// open connects and asks for the upgrade.
func (c *Caller) open(ctx context.Context) (*line, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSpoken, err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	l := &line{conn: conn, read: reader{from: bufio.NewReader(conn), limit: MaxAnswer}}
	if err := l.upgrade(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%w: %w", ErrNotSpoken, err)
	}
	return l, nil
}

func (l *line) upgrade() error {
	req, err := http.NewRequest(http.MethodGet, "http://peer"+Path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", Protocol)
	if err := req.Write(l.conn); err != nil {
		return err
	}
	res, err := http.ReadResponse(l.read.from, req)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("%w with %s", ErrRefused, res.Status)
	}
	return nil
}

// put keeps a connection for further calls.
func (c *Caller) put(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= maxIdle {
		l.conn.Close()
		return
	}
	c.idle = append(c.idle, l)
}

// Close closes idle connections; those of calls under way are closed at their end.
func (c *Caller) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, l := range c.idle {
		l.conn.Close()
	}
	c.idle = nil
}

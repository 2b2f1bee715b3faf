package server

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// relay carries a stream between a client and the machine that can serve it.
func relay[In, Out any](client *connect.BidiStream[In, Out], other *connect.BidiStreamForClientSimple[In, Out], err error, first *In) error {
	if err != nil {
		return err
	}
	if err := other.Send(first); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	go func() {
		defer other.CloseRequest()
		for {
			in, err := client.Receive()
			if err != nil || other.Send(in) != nil {
				return
			}
		}
	}()
	defer other.CloseResponse()
	for {
		out, err := other.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return wire(err)
		}
		if err := client.Send(out); err != nil {
			return err
		}
	}
}

// execWriter sends a command's output; a stream takes one message at a time.
type execWriter struct {
	mu     sync.Mutex // guards sending on stream
	stream *connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput]
}

func (w *execWriter) send(m *apiv1.ExecOutput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream.Send(m)
}

func (w *execWriter) to(wrap func([]byte) *apiv1.ExecOutput) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		if err := w.send(wrap(b)); err != nil {
			return 0, err
		}
		return len(b), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// chunkReader reads an upload.
type chunkReader struct {
	in   *connect.ClientStream[apiv1.ImageChunk]
	rest []byte
}

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if !r.in.Receive() {
			if err := r.in.Err(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		r.rest = r.in.Msg().GetData()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Forward carries one TCP connection to a port of a pod.
func (s *Server) Forward(ctx context.Context, stream *connect.BidiStream[apiv1.ForwardData, apiv1.ForwardData]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	key := keyOf(first.GetKey())
	if first.GetPort() == 0 || first.GetPort() > 65535 {
		return wire(api.Errorf(api.SpecInvalid, "port %d: a port is between 1 and 65535", first.GetPort()))
	}
	p, err := s.locate(ctx, key, anyContainer)
	if err != nil {
		return err
	}
	if p.other != nil {
		other, err := p.other.Forward(ctx)
		return relay(stream, other, err, first)
	}
	conn, err := s.cfg.Network.Dial(ctx, p.id, uint16(first.GetPort()))
	if err != nil {
		return wire(api.Errorf(api.MachineUnreachable, "connect to port %d of %s: %w", first.GetPort(), key, err))
	}
	defer conn.Close()
	return carry(stream, conn)
}

// carry copies both ways until the pod closes the connection or the client goes.
func carry(stream *connect.BidiStream[apiv1.ForwardData, apiv1.ForwardData], conn net.Conn) error {
	go func() {
		for {
			in, err := stream.Receive()
			if err != nil {
				conn.Close()
				return
			}
			if len(in.GetData()) > 0 {
				if _, err := conn.Write(in.GetData()); err != nil {
					return
				}
			}
			if tcp, ok := conn.(*net.TCPConn); ok && in.GetClose() {
				_ = tcp.CloseWrite() // the pod sees the end of the request
			}
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if err := stream.Send(&apiv1.ForwardData{Data: buf[:n]}); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

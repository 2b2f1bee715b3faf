package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// Copy carries files into or out of a running container.
func (s *Server) Copy(ctx context.Context, stream *connect.BidiStream[apiv1.CopyData, apiv1.CopyData]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start.GetPath() == "" {
		return wire(api.Errorf(api.SpecInvalid, "name the files: peer cp OBJ:PATH PATH"))
	}
	p, err := s.locate(ctx, keyOf(start.GetKey()), start.GetContainer())
	if err != nil {
		return err
	}
	if p.other != nil {
		other, err := p.other.Copy(ctx)
		return relay(stream, other, err, first)
	}
	if start.GetWrite() {
		err = s.cfg.Runtime.WriteFiles(ctx, p.id, p.container, start.GetPath(), &copyReader{stream: stream})
	} else {
		w := bufio.NewWriterSize(writerFunc(func(b []byte) (int, error) {
			return len(b), stream.Send(&apiv1.CopyData{Data: b})
		}), exportChunk)
		if err = s.cfg.Runtime.ReadFiles(ctx, p.id, p.container, start.GetPath(), w); err == nil {
			err = w.Flush()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return wire(api.Errorf(api.NotFound, "container %s of %s: %w", p.container, keyOf(start.GetKey()), err))
	}
	if err != nil {
		return wire(api.Errorf(api.Invalid, "container %s of %s: %w", p.container, keyOf(start.GetKey()), err))
	}
	return nil
}

// copyReader reads the archive that a client sends.
type copyReader struct {
	stream *connect.BidiStream[apiv1.CopyData, apiv1.CopyData]
	rest   []byte
}

func (r *copyReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		in, err := r.stream.Receive()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		r.rest = in.GetData()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/crdt"
	"starling.dev/starling/oci"
	"starling.dev/starling/peer"
)

// place is where a pod's container runs.
type place struct {
	id, container string
	other         apiv1connect.StarlingClient // nil: here
}

// locate finds the machine of a pod, and which container is meant.
func (s *Server) locate(ctx context.Context, key api.Key, container string) (place, error) {
	var p place
	machine := ""
	err := s.read(ctx, func(c *peer.Core) *api.Error {
		seen, ok := c.See(key)
		if !ok {
			return noSuch(c, key)
		}
		if key.Kind != "Pod" {
			return api.Errorf(api.Invalid, "%s is no pod, and only pods have containers; list them with `peer get pods -o wide`", key)
		}
		p.id = seen.Object.ID
		if machine = machineOf(seen); machine == "" {
			return api.Errorf(api.NotFound, "%s has no machine yet; ask `peer why %s`", key, key)
		}
		var fault *api.Error
		p.container, fault = chooseContainer(key, container, seen.Object.Fields.Keys("spec.containers"))
		return fault
	})
	if err != nil {
		return place{}, err
	}
	p.other, err = s.elsewhere(ctx, machine)
	return p, err
}

// anyContainer is for what concerns the pod, and none of its containers.
const anyContainer = "*"

func chooseContainer(key api.Key, name string, have []string) (string, *api.Error) {
	if name == anyContainer {
		return "", nil
	}
	if name == "" && len(have) == 1 {
		return have[0], nil
	}
	for _, h := range have {
		if h == name {
			return name, nil
		}
	}
	if name == "" {
		return "", api.Errorf(api.NotFound, "%s has several containers; name one with -c: %s", key, strings.Join(have, ", "))
	}
	return "", api.Errorf(api.NotFound, "%s has no container %q; it has %s", key, name, strings.Join(have, ", "))
}

// elsewhere returns a client for another machine's API, nil for this one's.
func (s *Server) elsewhere(ctx context.Context, machine string) (apiv1connect.StarlingClient, error) {
	var id crdt.MachineID
	here := false
	err := s.read(ctx, func(c *peer.Core) *api.Error {
		var ok bool
		id, ok = c.IDOf(machine)
		here = id == c.Self().ID
		if !ok {
			return api.Errorf(api.NotFound, "there is no machine %q in this cluster", machine)
		}
		return nil
	})
	switch {
	case err != nil || here:
		return nil, err
	case s.member:
		return nil, wire(api.Errorf(api.MachineUnreachable, "this was passed on to a machine that no longer has it; try again"))
	}
	return s.memberClient(id, machine), nil
}

// Logs sends a container's output.
func (s *Server) Logs(ctx context.Context, req *apiv1.LogsRequest, out *connect.ServerStream[apiv1.LogLine]) error {
	p, err := s.locate(ctx, keyOf(req.GetKey()), req.GetContainer())
	if err != nil {
		return err
	}
	if p.other != nil {
		return passLogs(ctx, p.other, req, out)
	}
	o := oci.LogOptions{Follow: req.GetFollow(), Previous: req.GetPrevious(), Tail: int(req.GetTail())}
	if ms := req.GetSinceMs(); ms > 0 {
		o.Since = time.UnixMilli(ms)
	}
	err = s.cfg.Runtime.Logs(ctx, p.id, p.container, o, func(l oci.LogLine) error {
		return out.Send(&apiv1.LogLine{TimeNs: l.At.UnixNano(), Stream: l.Stream, Line: []byte(l.Text)})
	})
	if errors.Is(err, oci.ErrNoLog) {
		return wire(api.Errorf(api.NotFound, "%s: container %s has not run yet: %w", keyOf(req.GetKey()), p.container, err))
	}
	if ctx.Err() != nil {
		return nil
	}
	return wire(err)
}

func passLogs(ctx context.Context, other apiv1connect.StarlingClient, req *apiv1.LogsRequest, out *connect.ServerStream[apiv1.LogLine]) error {
	in, err := other.Logs(ctx, req)
	if err != nil {
		return wire(err)
	}
	defer in.Close()
	for in.Receive() {
		if err := out.Send(in.Msg()); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return wire(in.Err())
}

// Exec runs a command in a container.
func (s *Server) Exec(ctx context.Context, stream *connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil || len(start.GetArgs()) == 0 {
		return wire(api.Errorf(api.SpecInvalid, "name the command to run: peer exec OBJ -- COMMAND"))
	}
	p, err := s.locate(ctx, keyOf(start.GetKey()), start.GetContainer())
	if err != nil {
		return err
	}
	if p.other != nil {
		other, err := p.other.Exec(ctx)
		return relay(stream, other, err, first)
	}
	return s.execHere(ctx, p, start, stream)
}

func (s *Server) execHere(ctx context.Context, p place, start *apiv1.ExecStart, stream *connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput]) error {
	stdin, feed := io.Pipe()
	resize := make(chan oci.TerminalSize, 1) // the latest size; an older one is dropped
	if size := start.GetSize(); size != nil {
		resize <- oci.TerminalSize{Width: uint16(size.GetWidth()), Height: uint16(size.GetHeight())}
	}
	go receiveInput(stream, feed, resize)
	out := &execWriter{stream: stream}
	code, err := s.cfg.Runtime.Exec(ctx, p.id, p.container, oci.ExecSpec{
		Args: start.GetArgs(), TTY: start.GetTty(), Stdin: stdin, Resize: resize,
		Stdout: out.to(func(b []byte) *apiv1.ExecOutput { return &apiv1.ExecOutput{Stdout: b} }),
		Stderr: out.to(func(b []byte) *apiv1.ExecOutput { return &apiv1.ExecOutput{Stderr: b} }),
	})
	stdin.Close()
	if err != nil {
		return wire(api.Errorf(api.Invalid, "%w", err))
	}
	return out.send(&apiv1.ExecOutput{Exited: true, ExitCode: code})
}

// receiveInput feeds a command until the client closes its input or goes.
func receiveInput(stream *connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput], feed *io.PipeWriter, resize chan oci.TerminalSize) {
	defer feed.Close()
	for {
		in, err := stream.Receive()
		if err != nil || in.GetCloseStdin() {
			return
		}
		if size := in.GetResize(); size != nil {
			select {
			case <-resize:
			default:
			}
			resize <- oci.TerminalSize{Width: uint16(size.GetWidth()), Height: uint16(size.GetHeight())}
		}
		if len(in.GetStdin()) > 0 {
			if _, err := feed.Write(in.GetStdin()); err != nil {
				return
			}
		}
	}
}

// Images lists the images of this machine, or of all that can be reached.
func (s *Server) Images(ctx context.Context, _ *apiv1.ImagesRequest) (*apiv1.ImagesResponse, error) {
	out := &apiv1.ImagesResponse{}
	self, others, err := s.around(ctx, &out.View)
	if err != nil {
		return nil, err
	}
	done := others.ask(&out.View.Unreachable, func(c apiv1connect.StarlingClient) (func(), error) {
		theirs, err := c.Images(ctx, &apiv1.ImagesRequest{})
		return func() { out.Images = append(out.Images, theirs.GetImages()...) }, err
	})
	list, err := s.cfg.Runtime.List(ctx)
	done()
	if err != nil {
		return nil, wire(err)
	}
	out.Images = append(out.Images, imagesTo(self, list)...)
	slices.SortFunc(out.Images, func(a, b *apiv1.Image) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetMachine(), b.GetMachine()))
	})
	return out, nil
}

func imagesTo(machine string, list []oci.Image) []*apiv1.Image {
	var out []*apiv1.Image
	for _, i := range list {
		out = append(out, &apiv1.Image{Name: i.Ref, Digest: i.Digest, Size: i.Size, Machine: machine})
	}
	return out
}

// LoadImage brings images in from an archive.
func (s *Server) LoadImage(ctx context.Context, in *connect.ClientStream[apiv1.ImageChunk]) (*apiv1.ImagesResponse, error) {
	if err := s.locals("loading an image"); err != nil {
		return nil, err
	}
	list, err := s.cfg.Runtime.Import(ctx, &chunkReader{in: in})
	if err != nil {
		return nil, wire(err)
	}
	out := &apiv1.ImagesResponse{}
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		out.View, out.Images = view(c), imagesTo(c.Self().Name, list)
		return nil
	})
}

// RemoveImages takes images away from this machine.
func (s *Server) RemoveImages(ctx context.Context, req *apiv1.RemoveImagesRequest) (*apiv1.ImagesResponse, error) {
	if err := s.locals("removing an image"); err != nil {
		return nil, err
	}
	gone, err := s.removeImages(ctx, req.GetRefs())
	if err != nil {
		return nil, wire(err)
	}
	out := &apiv1.ImagesResponse{}
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		out.View, out.Images = view(c), imagesTo(c.Self().Name, gone)
		return nil
	})
}

func (s *Server) removeImages(ctx context.Context, refs []string) (gone []oci.Image, err error) {
	if len(refs) == 0 {
		return s.cfg.Runtime.Prune(ctx)
	}
	for _, ref := range refs {
		image, err := s.cfg.Runtime.Discard(ctx, ref)
		if err != nil {
			return nil, err
		}
		gone = append(gone, image)
	}
	return gone, nil
}

// ExportImage sends an image that this machine holds to another.
func (s *Server) ExportImage(ctx context.Context, req *apiv1.ExportImageRequest, out *connect.ServerStream[apiv1.ImageChunk]) error {
	w := bufio.NewWriterSize(writerFunc(func(b []byte) (int, error) {
		return len(b), out.Send(&apiv1.ImageChunk{Data: b})
	}), exportChunk)
	err := s.cfg.Runtime.Export(ctx, req.GetRef(), w)
	if errors.Is(err, oci.ErrNotHeld) {
		return wire(api.Errorf(api.NotFound, "image %s is not on this machine", req.GetRef()))
	}
	if err == nil {
		err = w.Flush()
	}
	return wire(err)
}

// exportChunk is the size of one message of an image on its way.
const exportChunk = 256 << 10

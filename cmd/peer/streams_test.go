package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	apiv1 "starling.dev/starling/api/v1"
)

func TestLogsPrintLines(t *testing.T) {
	var got *apiv1.LogsRequest
	f := &fake{logs: func(r *apiv1.LogsRequest, s *connect.ServerStream[apiv1.LogLine]) error {
		got = r
		return errors.Join(
			s.Send(&apiv1.LogLine{TimeNs: at.UnixNano(), Line: []byte("one")}),
			s.Send(&apiv1.LogLine{TimeNs: at.UnixNano(), Line: []byte("two\n"), Stream: "stderr"}))
	}}
	o := f.run(t, "logs", "web", "-c", "app", "-f", "--previous", "--tail", "5", "--since", "10s")
	if o.out != "one\ntwo\n" || o.code != exitOK {
		t.Errorf("got %+v, want two lines", o)
	}
	want := &apiv1.LogsRequest{Key: web(), Container: "app", Follow: true, Previous: true, Tail: 5, SinceMs: at.UnixMilli() - 10_000}
	if !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	f.run(t, "logs", "web", "-t").wantOut(t, "2026-03-14T15:09:26.000Z one\n")
}

func TestEventsPrintLines(t *testing.T) {
	f := &fake{events: func(r *apiv1.EventsRequest, s *connect.ServerStream[apiv1.Event]) error {
		if r.GetLoop() != "image" || !r.GetFollow() {
			t.Errorf("asked for %v", r)
		}
		return s.Send(&apiv1.Event{Key: web(), Step: "image", Phase: "done", Machine: "m1", TookMs: 3, TimeMs: at.UnixMilli()})
	}}
	f.run(t, "events", "-f", "--loop", "image").wantOut(t, "pod/web", "image", "on m1, took 3ms")
}

// A command gets its input to the end, its streams stay apart, and its exit code is ours.
func TestExecCarriesInputOutputAndExitCode(t *testing.T) {
	f := &fake{exec: func(s *connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput]) error {
		first, err := s.Receive()
		if err != nil {
			return err
		}
		if want := (&apiv1.ExecStart{Key: web(), Args: []string{"wc", "-c"}, Container: "app"}); !proto.Equal(first.GetStart(), want) {
			t.Errorf("started %v, want %v", first.GetStart(), want)
		}
		var input bytes.Buffer
		for {
			in, err := s.Receive()
			if err != nil {
				return err
			}
			if in.GetCloseStdin() {
				break
			}
			input.Write(in.GetStdin())
		}
		return errors.Join(
			s.Send(&apiv1.ExecOutput{Stdout: input.Bytes()}),
			s.Send(&apiv1.ExecOutput{Stderr: []byte("warning\n")}),
			s.Send(&apiv1.ExecOutput{Exited: true, ExitCode: 7}))
	}}
	socket := f.serve(t)
	text := strings.Repeat("line\n", 50_000)
	o := execute(t, socket, typed{args: []string{"exec", "-i", "web", "-c", "app", "--", "wc", "-c"}, in: strings.NewReader(text)})
	if o.code != 7 || o.out != text || o.errs != "warning\n" {
		t.Errorf("code %d, %d bytes out, %q on the side; want 7, %d bytes, a warning", o.code, len(o.out), o.errs, len(text))
	}
	o = execute(t, socket, typed{args: []string{"exec", "web", "-c", "app", "--", "wc", "-c"}, in: strings.NewReader(text)})
	if o.out != "" {
		t.Errorf("without -i the command read %d bytes of our input", len(o.out))
	}
}

func TestExecFailsClearly(t *testing.T) {
	f := &fake{exec: func(s *connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput]) error {
		_, err := s.Receive()
		return err
	}}
	f.run(t, "exec", "web", "--", "sh").wantErr(t, exitError, "lost before the command ended")
	f.run(t, "exec", "-t", "web", "--", "sh").wantErr(t, exitError, "-t takes a terminal")
}

func TestImageLoadSendsTheArchive(t *testing.T) {
	archive := bytes.Repeat([]byte("0123456789"), chunkSize/4)
	var got bytes.Buffer
	f := &fake{load: func(s *connect.ClientStream[apiv1.ImageChunk]) (*apiv1.ImagesResponse, error) {
		for s.Receive() {
			got.Write(s.Msg().GetData())
		}
		return &apiv1.ImagesResponse{Images: []*apiv1.Image{{Name: "localhost/hello:1", Machine: "m1"}}}, s.Err()
	}}
	o := execute(t, f.serve(t), typed{args: []string{"image", "load", "-f", "-"}, in: bytes.NewReader(archive)})
	o.wantOut(t, "localhost/hello:1")
	if !bytes.Equal(got.Bytes(), archive) {
		t.Errorf("%d bytes arrived, want the %d that were sent", got.Len(), len(archive))
	}
	f.load = func(*connect.ClientStream[apiv1.ImageChunk]) (*apiv1.ImagesResponse, error) {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("this is no archive"))
	}
	o = execute(t, f.serve(t), typed{args: []string{"image", "load", "-f", "-"}, in: bytes.NewReader(archive)})
	o.wantErr(t, exitError, "this is no archive")
}

// A connection is carried both ways, and its half-closing too: what asks and then closes
// its side still gets the answer.
func TestForwardCarriesAConnection(t *testing.T) {
	f := &fake{
		get: func(*apiv1.GetRequest) (*apiv1.GetResponse, error) {
			return &apiv1.GetResponse{Objects: []*apiv1.Object{{Key: web()}}}, nil
		},
		forward: func(s *connect.BidiStream[apiv1.ForwardData, apiv1.ForwardData]) error {
			first, err := s.Receive()
			if err != nil || first.GetPort() != 8080 || !proto.Equal(first.GetKey(), web()) {
				t.Errorf("the first message is %v (%v)", first, err)
				return err
			}
			var asked []byte
			for {
				in, err := s.Receive()
				if err != nil {
					return err
				}
				if asked = append(asked, in.GetData()...); in.GetClose() {
					return s.Send(&apiv1.ForwardData{Data: bytes.ToUpper(asked)})
				}
			}
		},
	}
	socket := f.serve(t)
	ctx, cancel := context.WithCancel(context.Background())
	read, errs := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- typed{args: []string{"forward", "web", "0:8080"}, ctx: ctx}.run(socket, io.Discard, errs)
		errs.Close()
	}()
	first := make([]byte, 512)
	n, err := read.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, read)
	port := regexp.MustCompile(`127\.0\.0\.1:(\d+) leads to port 8080 of pod/web`).FindSubmatch(first[:n])
	if port == nil {
		t.Fatalf("it says %q; want where it listens", first[:n])
	}
	if got := askOnce(t, net.JoinHostPort("127.0.0.1", string(port[1])), "hello"); got != "HELLO" {
		t.Errorf("the answer is %q, want HELLO", got)
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("an interrupted forward ends with %d, want 0", code)
	}
}

// askOnce sends a request, closes its side, and reads the answer to its end.
func askOnce(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

package calls

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	apiv1 "starling.dev/starling/api/v1"
)

// Method is what answers a procedure's calls.
type Method struct {
	request func() proto.Message
	answer  func(context.Context, proto.Message) (proto.Message, error)
}

// message is a pointer to a generated type.
type message[T any] interface {
	*T
	proto.Message
}

// Unary makes a method of a function of the service's handler.
func Unary[Req, Res any, Q message[Req], S message[Res]](do func(context.Context, *Req) (*Res, error)) Method {
	return Method{
		request: func() proto.Message { return Q(new(Req)) },
		answer: func(ctx context.Context, m proto.Message) (proto.Message, error) {
			res, err := do(ctx, m.(Q))
			return S(res), err
		},
	}
}

// Handler upgrades connections, and answers the calls on them until they or the server's
// context (http.Server.BaseContext) end.
func Handler(methods map[string]Method) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hijacker, ok := w.(http.Hijacker)
		if !ok || !strings.EqualFold(r.Header.Get("Upgrade"), Protocol) {
			w.Header().Set("Upgrade", Protocol)
			http.Error(w, "this path is for an upgrade to "+Protocol, http.StatusUpgradeRequired)
			return
		}
		conn, buffered, err := hijacker.Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Protocol + "\r\n\r\n")); err != nil {
			return
		}
		serve(r.Context(), conn, buffered.Reader, methods)
	})
}

// asked is a request that was read.
type asked struct {
	method  Method
	message proto.Message
	fault   error // why it can't be answered
}

// serve answers one request after the other. They are read beside that, so that the end
// of the connection ends a call that still runs.
func serve(ctx context.Context, conn net.Conn, from *bufio.Reader, methods map[string]Method) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	requests := make(chan asked) // unbuffered: a request waits for the answer before it
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(requests)
		defer cancel()
		read(ctx, &reader{from: from, limit: MaxRequest}, methods, requests)
	}()
	defer func() { // also when a method panics, which the HTTP server logs
		cancel()
		conn.Close()
		<-ended
	}()
	var buf []byte
	for a := range requests {
		frame := a.answer(ctx, buf)
		if _, err := conn.Write(frame); err != nil {
			return
		}
		if buf = frame; cap(buf) > kept {
			buf = nil
		}
	}
}

func read(ctx context.Context, r *reader, methods map[string]Method, requests chan<- asked) {
	for {
		frame, err := r.next()
		if err != nil {
			return
		}
		select {
		case requests <- parse(frame, methods):
		case <-ctx.Done():
			return
		}
	}
}

func parse(frame []byte, methods map[string]Method) (a asked) {
	name, body, err := cut(frame)
	if err != nil {
		a.fault = connect.NewError(connect.CodeInvalidArgument, err)
		return a
	}
	method, ok := methods[string(name)]
	if !ok {
		a.fault = connect.NewError(connect.CodeUnimplemented, errors.New("there is no such procedure"))
		return a
	}
	a.method, a.message = method, method.request()
	if err := proto.Unmarshal(body, a.message); err != nil {
		a.fault = connect.NewError(connect.CodeInvalidArgument, err)
	}
	return a
}

// answer calls the method and returns the frame that answers.
func (a asked) answer(ctx context.Context, buf []byte) []byte {
	if a.fault != nil {
		return refusal(buf, failureOf(a.fault))
	}
	res, err := a.method.answer(ctx, a.message)
	if err != nil {
		return refusal(buf, failureOf(err))
	}
	frame, err := proto.MarshalOptions{}.MarshalAppend(append(begin(buf), 0), res)
	if err == nil {
		frame, err = finish(frame, MaxAnswer)
	}
	if err != nil {
		return refusal(buf, failureOf(connect.NewError(connect.CodeResourceExhausted, err)))
	}
	return frame
}

func failureOf(err error) failure {
	var known *connect.Error
	switch {
	case errors.As(err, &known):
		return failure{known.Code(), known.Meta().Get(apiv1.CodeHeader), known.Message()}
	case errors.Is(err, context.Canceled):
		return failure{connect.CodeCanceled, "", err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return failure{connect.CodeDeadlineExceeded, "", err.Error()}
	}
	return failure{connect.CodeUnknown, "", err.Error()}
}

package calls

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	apiv1 "starling.dev/starling/api/v1"
)

// FuzzRequest has a server read what a client may have sent: each request is answered by a
// frame that a client can read, whatever it holds.
func FuzzRequest(f *testing.F) {
	methods := map[string]Method{"/a": Unary(func(_ context.Context, req *apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
		if req.GetKey().GetKind() == "" {
			return nil, errors.New("no kind")
		}
		return &apiv1.WhyResponse{}, nil
	})}
	f.Add([]byte{0, 0, 0, 3, 2, '/', 'a'})
	f.Add([]byte{0, 0, 0, 8, 2, '/', 'a', 0x0a, 3, 0x0a, 1, 'x', 0, 0, 0, 1, 0})
	f.Add([]byte{255, 255, 255, 255, 0})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := &reader{from: bufio.NewReader(bytes.NewReader(stream)), limit: 1 << 20}
		for {
			frame, err := r.next()
			if err != nil {
				return
			}
			out := parse(frame, methods).answer(t.Context(), nil)
			if int(binary.BigEndian.Uint32(out)) != len(out)-lengthSize {
				t.Fatalf("%x is answered by a frame of a wrong length, %x", frame, out)
			}
			if _, _, err := answer(out[lengthSize:]); err != nil {
				t.Fatalf("%x is answered by %x: %v", frame, out, err)
			}
		}
	})
}

// FuzzAnswer has a client read what a server may have sent.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{5, 2, 'a', 'b', 'c'})
	f.Add([]byte{5, 9, 'a'})
	f.Fuzz(func(t *testing.T, frame []byte) {
		_, fault, err := answer(frame)
		if err != nil || fault.status == 0 {
			return
		}
		again := refusal(nil, fault)
		if _, back, err := answer(again[lengthSize:]); err != nil || back != fault {
			t.Fatalf("%+v becomes %+v (%v)", fault, back, err)
		}
	})
}

package calls

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"
)

const (
	// Path is where the upgrade is asked for, and Protocol what for.
	Path     = "/starling.v1.calls"
	Protocol = "starling-calls/1"
)

const (
	// MaxRequest and MaxAnswer bound a frame. An answer may list every object there is.
	MaxRequest = 64 << 20
	MaxAnswer  = 1 << 30

	lengthSize = 4
	// kept is the largest buffer that a connection keeps from one frame to the next.
	kept = 64 << 10
)

// ErrTooLarge is why a frame is neither sent nor read.
var ErrTooLarge = errors.New("a message is larger than the protocol allows")

// errMalformed is a frame that ends before its head does.
var errMalformed = errors.New("a frame of a call is malformed")

// begin starts a frame in a buffer that is used again.
func begin(buf []byte) []byte { return append(buf[:0], 0, 0, 0, 0) }

// finish writes the length into a frame.
func finish(frame []byte, limit int) ([]byte, error) {
	size := len(frame) - lengthSize
	if size > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, limit)
	}
	binary.BigEndian.PutUint32(frame, uint32(size))
	return frame, nil
}

// reader reads frames. What it returns is valid until it reads the next.
type reader struct {
	from  *bufio.Reader
	limit int
	buf   []byte
}

func (r *reader) next() ([]byte, error) {
	var length [lengthSize]byte
	if _, err := io.ReadFull(r.from, length[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(length[:]))
	if size > r.limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, r.limit)
	}
	return r.body(size)
}

// body reads so many bytes. Memory is taken as they arrive: a length is only a claim.
func (r *reader) body(size int) ([]byte, error) {
	if cap(r.buf) > kept {
		r.buf = nil
	}
	body := r.buf[:0]
	for len(body) < size {
		have := len(body)
		part := min(size-have, max(kept, have))
		body = append(body, make([]byte, part)...)
		if _, err := io.ReadFull(r.from, body[have:]); err != nil {
			return nil, noEOF(err)
		}
	}
	r.buf = body
	return body, nil
}

// noEOF: a connection that ends inside a frame has not ended well.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// short writes and cut reads a text of at most 255 bytes, after its length.
func short(frame []byte, text string) []byte {
	text = text[:min(len(text), 255)]
	return append(append(frame, byte(len(text))), text...)
}

func cut(frame []byte) (text, rest []byte, err error) {
	if len(frame) == 0 || len(frame) < 1+int(frame[0]) {
		return nil, nil, errMalformed
	}
	n := 1 + int(frame[0])
	return frame[1:n], frame[n:], nil
}

// refusal is the frame of an answer that is an error.
func refusal(buf []byte, f failure) []byte {
	frame := append(begin(buf), byte(f.status))
	frame = short(frame, f.code)
	frame = append(frame, f.text[:min(len(f.text), kept)]...)
	frame, err := finish(frame, MaxAnswer)
	if err != nil {
		panic(fmt.Sprintf("an error's text is bounded: %v", err))
	}
	return frame
}

// failure is an error as it goes over the wire.
type failure struct {
	status     connect.Code
	code, text string
}

// answer tells a message from an error.
func answer(frame []byte) (message []byte, f failure, err error) {
	if len(frame) == 0 {
		return nil, f, errMalformed
	}
	if frame[0] == 0 {
		return frame[1:], f, nil
	}
	code, text, err := cut(frame[1:])
	return nil, failure{connect.Code(frame[0]), string(code), string(text)}, err
}

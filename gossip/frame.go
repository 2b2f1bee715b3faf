package gossip

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The wire format of "starling/1", after the TLS handshake: frames, each a header of
// four bytes (type, then the length of the body as a 24-bit big-endian integer) and the
// body. The accepting side speaks first: frameWelcome, or frameRefuse and the end. A
// frame of an unknown type is skipped, so that types can be added.
type frameType uint8

const (
	frameData    frameType = 1 // body: opaque
	frameIdle    frameType = 2 // no body: "still here"
	framePing    frameType = 3 // body: 8 bytes, returned in a pong
	framePong    frameType = 4
	frameWelcome frameType = 5 // body ignored
	frameRefuse  frameType = 6 // body: one byte, a refusal, and what belongs to it
)

// refusal says why the accepting side does not want a connection.
type refusal uint8

const (
	refuseDuplicate refusal = 1 // another connection of the pair is kept
	refuseBusy      refusal = 2 // too many connections, or stopping
	refuseRemoved   refusal = 3 // the machine was removed; behind it a frame that proves it
)

// MaxFrame is the largest frame that can be sent, in bytes.
const MaxFrame = 4 << 20

const headerSize = 4

// errFrameSize is a frame over the limit: the sender is broken or hostile.
var errFrameSize = errors.New("frame over the limit")

type frame struct {
	kind frameType
	body []byte
}

func (f frame) size() int { return headerSize + len(f.body) }

// appendFrame writes f. Invariant: the body has at most MaxFrame bytes.
func appendFrame(b []byte, f frame) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(f.kind)<<24|uint32(len(f.body)))
	return append(b, f.body...)
}

// readFrame reads the next frame. Its body is the caller's. Between two frames the end
// is io.EOF; within one it is io.ErrUnexpectedEOF.
func readFrame(r *bufio.Reader) (frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	h := binary.BigEndian.Uint32(header[:])
	kind, size := frameType(h>>24), int(h&0xffffff)
	if size > MaxFrame {
		return frame{}, fmt.Errorf("read a frame of %d bytes: %w of %d", size, errFrameSize, MaxFrame)
	}
	body, err := readBody(r, size)
	if err != nil {
		return frame{}, err
	}
	return frame{kind: kind, body: body}, nil
}

// readBody allocates as the bytes arrive: a header alone costs its sender's victim
// nothing.
func readBody(r io.Reader, size int) ([]byte, error) {
	const step = 64 << 10
	body := make([]byte, 0, min(size, step))
	for len(body) < size {
		have, want := len(body), min(size-len(body), max(step, len(body)))
		if cap(body)-have < want {
			grown := make([]byte, have, have+want)
			copy(grown, body)
			body = grown
		}
		body = body[:have+want]
		if _, err := io.ReadFull(r, body[have:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return body, nil
}

package gossip

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
)

func FuzzFrame(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0})
	f.Add([]byte{1, 0, 0, 3, 'a', 'b', 'c', 2, 0, 0, 0})
	f.Add([]byte{9, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReader(bytes.NewReader(in))
		var out []byte
		for {
			fr, err := readFrame(r)
			if err != nil {
				// What was read so far, encoded again, is what was there.
				if !bytes.HasPrefix(in, out) {
					t.Fatalf("read %x as %x", in, out)
				}
				if errors.Is(err, io.EOF) && len(out) != len(in) {
					t.Fatalf("%d of %d bytes were swallowed", len(in)-len(out), len(in))
				}
				return
			}
			out = appendFrame(out, fr)
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 1, 2}, 10)
	f.Add([]byte{0xff, 0, 0, 2}, 1<<26)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		body, err := readMessage(bytes.NewReader(in), limit)
		if err == nil && (len(body) > limit || !bytes.HasPrefix(in[4:], body)) {
			t.Fatalf("read %x as %x with limit %d", in, body, limit)
		}
	})
}

func TestFrameOverTheLimitIsRefused(t *testing.T) {
	for _, size := range []int{MaxFrame, MaxFrame + 1} {
		b := appendFrame(nil, frame{frameData, make([]byte, size)})
		f, err := readFrame(bufio.NewReader(bytes.NewReader(b)))
		if fits := size <= MaxFrame; fits != (err == nil) || fits && len(f.body) != size || !fits && !errors.Is(err, errFrameSize) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A header that announces much, with nothing behind it, must not take much memory.
func TestAnnouncedSizeIsNotAllocated(t *testing.T) {
	header := appendFrame(nil, frame{frameData, make([]byte, MaxFrame)})[:headerSize]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readFrame(bufio.NewReader(bytes.NewReader(header)))
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut frame: %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > MaxFrame/8 {
		t.Errorf("%d bytes were allocated for a header", used)
	}
}

package gossip

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"starling.dev/starling/crdt"
)

func takeAll(t *testing.T, q *queue, limit int) (bodies []string) {
	t.Helper()
	b, n := q.take(nil, limit)
	r := bufio.NewReader(bytes.NewReader(b))
	for {
		f, err := readFrame(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(f.body))
	}
	if len(bodies) != n {
		t.Errorf("%d frames counted, %d taken", n, len(bodies))
	}
	return bodies
}

func TestControlOvertakesBulk(t *testing.T) {
	q := newQueue()
	for _, body := range []string{"a", "b", "c"} {
		if err := q.push(frame{frameData, []byte(body)}, body == "c"); err != nil {
			t.Fatal(err)
		}
	}
	if got := takeAll(t, q, batchBytes); !slices.Equal(got, []string{"c", "a", "b"}) {
		t.Errorf("taken in the order %q", got)
	}
	if got := takeAll(t, q, batchBytes); got != nil {
		t.Errorf("taken twice: %q", got)
	}
}

func TestFullQueueDropsTheNewest(t *testing.T) {
	tests := []struct {
		name    string
		size    int
		control bool
		fit     int
		want    error
	}{
		{"bytes", 1 << 20, false, QueueBytes / (1<<20 + headerSize), ErrQueueFull},
		{"frames", 1, false, QueueFrames, ErrQueueFull},
		{"control", 1, true, ControlFrames, ErrQueueFull},
		{"huge", MaxFrame + 1, false, 0, ErrFrameTooLarge},
		{"huge control", ControlFrame + 1, true, 0, ErrFrameTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := newQueue()
			body, n := make([]byte, tt.size), 0
			var err error
			for ; err == nil; n++ {
				err = q.push(frame{frameData, body}, tt.control)
			}
			if n-1 != tt.fit || !errors.Is(err, tt.want) {
				t.Errorf("%d frames fit, then: %v; want %d, then: %v", n-1, err, tt.fit, tt.want)
			}
			if tt.fit == 0 {
				return
			}
			if q.drops() != 1 {
				t.Errorf("%d drops counted", q.drops())
			}
			takeAll(t, q, 1)
			if err := q.push(frame{frameData, body}, tt.control); err != nil {
				t.Errorf("room was made, yet: %v", err)
			}
		})
	}
}

func TestQueueKeepsOrderThroughManyTurns(t *testing.T) {
	q := newQueue()
	next, want := 0, 0
	for round := range 200 {
		for range round % 97 {
			body := binary.BigEndian.AppendUint32(nil, uint32(next))
			if err := q.push(frame{frameData, body}, false); err != nil {
				t.Fatal(err)
			}
			next++
		}
		for _, body := range takeAll(t, q, 8*(round%89)) {
			if got := binary.BigEndian.Uint32([]byte(body)); int(got) != want {
				t.Fatalf("frame %d came where %d was due", got, want)
			}
			want++
		}
	}
	want += len(takeAll(t, q, QueueBytes))
	if bulk, control := q.waiting(); want != next || bulk != 0 || control != 0 {
		t.Errorf("%d of %d frames came; %d bytes and %d control frames are left", want, next, bulk, control)
	}
}

// A receiver whose handler blocks must cost the sender its queue and nothing more, and
// both must stay connected.
func TestSlowReceiverHoldsTheSenderUp(t *testing.T) {
	b, trust := &book{}, admit(1, 2)
	release := make(chan struct{})
	s1 := startStream(t, 1, b, trust, nil)
	var s2 *stream
	s2 = startStream(t, 2, b, trust, func(c *TransportConfig) {
		c.Handler = func(from crdt.MachineID, body []byte) {
			<-release
			s2.handle(from, body[:1])
		}
	})
	s1.SetPeers([]crdt.MachineID{keyID(2)})
	s1.waitUp(t, keyID(2), true)
	s2.waitUp(t, keyID(1), true)
	body, sent := make([]byte, 1<<20), 0
	for {
		err := s1.Send(keyID(2), body)
		if errors.Is(err, ErrQueueFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sent++
	}
	if sent > 64 {
		t.Errorf("%d MiB were taken before the queue was full", sent)
	}
	if got := s1.Stats().Dropped; got != 1 {
		t.Errorf("%d drops counted", got)
	}
	// Blocked for longer than the silence that would count as death.
	blocked := newStopwatch(2 * s1.cfg.Timing.DeadAfter)
	s1.wait(t, "time passes", func() bool { return blocked.over(s1.watcher) })
	if len(s1.Connected()) != 1 || len(s2.Connected()) != 1 {
		t.Error("back-pressure was taken for death")
	}
	close(release)
	s2.wait(t, "everything that was taken arrives", func() bool { return len(s2.got[keyID(1)]) == sent })
}

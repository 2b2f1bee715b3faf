package gossip

import (
	"errors"
	"sync"
)

// The limits of one peer's send queue.
const (
	// QueueBytes bounds the bulk frames that wait for one peer.
	QueueBytes = 8 << 20
	// QueueFrames bounds their number.
	QueueFrames = 8192
	// ControlFrames bounds the control frames that wait, each at most ControlFrame bytes.
	ControlFrames = 1024
	// ControlFrame is the largest control frame.
	ControlFrame = 4 << 10
)

// Errors of sending.
var (
	// ErrQueueFull: the peer takes frames more slowly than they are sent. The frame was
	// dropped and counted; anti-entropy will bring its content.
	ErrQueueFull = errors.New("the peer's send queue is full; the frame was dropped")
	// ErrFrameTooLarge: the frame can never be sent.
	ErrFrameTooLarge = errors.New("frame too large")
	// ErrUnknownMachine: nothing is known of how to reach the machine, or it was removed.
	ErrUnknownMachine = errors.New("no address of the machine is known")
)

// queue holds the frames that wait for one peer. When it is full the newest frame is
// the one dropped: those that wait are older and so more likely to be what the
// receiver lacks to make sense of the rest. Control frames overtake bulk.
type queue struct {
	// wake and urgent have room for one: the writer empties the queue each time it is
	// woken. urgent is for control frames alone.
	wake, urgent chan struct{}

	mu      sync.Mutex
	control fifo
	bulk    fifo
	bytes   int // in bulk, headers included
	dropped uint64
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) push(f frame, control bool) error {
	if len(f.body) > MaxFrame || control && len(f.body) > ControlFrame {
		return ErrFrameTooLarge
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case control && q.control.len() >= ControlFrames,
		!control && (q.bulk.len() >= QueueFrames || q.bytes+f.size() > QueueBytes):
		q.dropped++
		return ErrQueueFull
	case control:
		q.control.push(f)
		signal(q.urgent)
	default:
		q.bulk.push(f)
		q.bytes += f.size()
	}
	q.signal()
	return nil
}

func (q *queue) signal() { signal(q.wake) }

// take appends waiting frames to b, control first, until it has at least limit bytes or
// nothing waits, and counts the data frames. A frame is taken once: it is lost if the
// connection breaks before it got through.
func (q *queue) take(b []byte, limit int) (out []byte, frames int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(b) < limit {
		f, ok := q.control.pop()
		if !ok {
			if f, ok = q.bulk.pop(); !ok {
				break
			}
			q.bytes -= f.size()
		}
		b = appendFrame(b, f)
		if f.kind == frameData {
			frames++
		}
	}
	return b, frames
}

// clear drops everything that waits.
func (q *queue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped += uint64(q.control.len() + q.bulk.len())
	q.control, q.bulk, q.bytes = fifo{}, fifo{}, 0
}

// waiting returns the bytes of bulk and the number of control frames that wait.
func (q *queue) waiting() (bulk, control int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes, q.control.len()
}

func (q *queue) drops() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// fifo is a queue of frames in one growing and shrinking slice.
type fifo struct {
	frames []frame
	head   int
}

func (f *fifo) len() int     { return len(f.frames) - f.head }
func (f *fifo) push(x frame) { f.frames = append(f.frames, x) }

func (f *fifo) pop() (frame, bool) {
	if f.len() == 0 {
		return frame{}, false
	}
	x := f.frames[f.head]
	f.frames[f.head] = frame{}
	f.head++
	switch {
	case f.head == len(f.frames):
		*f = fifo{} // give the memory of a burst back
	case f.head >= 64 && 2*f.head >= len(f.frames):
		n := copy(f.frames, f.frames[f.head:])
		clear(f.frames[n:])
		f.frames, f.head = f.frames[:n], 0
	}
	return x, true
}

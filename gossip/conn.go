package gossip

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"starling.dev/starling/crdt"
)

// batchBytes is how much is written at once: four TLS records.
const batchBytes = 64 << 10

// secureConn is what a connection needs of TLS.
type secureConn interface {
	net.Conn
	CloseWrite() error
}

// conn is one connection that carries frames. Its writer empties the peer's queue, which
// outlives it; its reader calls the handler, and waits while the handler does.
type conn struct {
	tls      secureConn
	in       *bufio.Reader
	peer     crdt.MachineID
	dialedBy crdt.MachineID
	queue    *queue
	timing   StreamTiming
	handler  func(from crdt.MachineID, frame []byte)
	pongs    func(nonce uint64)
	dark     func() bool // tests: frames to the peer vanish
	count    *counters

	surplus bool            // the peer may write until it finds out that another is kept
	after   <-chan struct{} // the end of the connection that this one replaced; nil if none
	retired chan struct{}   // closed when another connection took over
	done    chan struct{}   // closed when run returns
	once    sync.Once       // closes retired
	lastUse atomic.Int64    // Unix nanoseconds of the last data frame either way
}

// counters are shared by all connections.
type counters struct {
	framesIn, framesOut, bytesIn, bytesOut atomic.Uint64
}

// retire ends the connection politely: what was taken from the queue is written, what
// the peer has sent is read, for a while.
func (c *conn) retire() {
	c.once.Do(func() {
		close(c.retired)
		time.AfterFunc(min(time.Second, c.timing.DeadAfter/2), c.close)
	})
}

// close ends it now.
func (c *conn) close() { c.tls.Close() }

// run reads and writes until the connection ends, and returns why. It begins when the
// connection that it replaced has been read to its end, so that order is kept.
func (c *conn) run(ctx context.Context) error {
	defer close(c.done)
	if c.after != nil {
		select {
		case <-c.after:
		case <-ctx.Done():
		}
	}
	c.touch()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	if c.surplus {
		defer c.close() // only now: the peer takes it for "all was read"
		return c.read()
	}
	wrote := make(chan error, 1)
	ended := make(chan struct{})
	go func() { wrote <- c.write(ended) }()
	rerr := c.read()
	close(ended)
	c.close()
	werr := <-wrote
	c.queue.signal() // for the writer of the connection that took over
	if werr != nil && !errors.Is(werr, net.ErrClosed) {
		return werr
	}
	return rerr
}

func (c *conn) touch() { c.lastUse.Store(time.Now().UnixNano()) }

func (c *conn) idleFor(now time.Time) time.Duration {
	return now.Sub(time.Unix(0, c.lastUse.Load()))
}

// read takes frames until the connection ends. Nothing for DeadAfter means that the
// peer is dead, since it sends something every KeepAlive. The time that the handler
// takes doesn't count: that is our slowness, not the peer's.
func (c *conn) read() error {
	for {
		f, err := readFrame(c.in)
		if err != nil {
			return readError(err, c.timing.DeadAfter)
		}
		switch f.kind {
		case frameData:
			c.count.framesIn.Add(1)
			c.touch()
			c.handler(c.peer, f.body)
		case framePing:
			// A full queue drops the pong; the one who asks has a deadline.
			_ = c.queue.push(frame{framePong, f.body}, true)
		case framePong:
			if len(f.body) == 8 {
				c.pongs(binary.BigEndian.Uint64(f.body))
			}
		}
	}
}

func readError(err error, silence time.Duration) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("nothing was heard for " + silence.String())
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the peer closed the connection")
	}
	return err
}

// liveReader gives each read of the socket its own deadline, so that a large frame may
// take long as long as it moves.
type liveReader struct{ c *conn }

func (l liveReader) Read(b []byte) (int, error) {
	if err := l.c.tls.SetReadDeadline(time.Now().Add(l.c.timing.DeadAfter)); err != nil {
		return 0, err
	}
	n, err := l.c.tls.Read(b)
	l.c.count.bytesIn.Add(uint64(n))
	return n, err
}

// write empties the queue into the connection: at once when it was idle or control
// frames wait, and in batches of what gathers within Coalesce when it is busy.
func (c *conn) write(ended <-chan struct{}) error {
	idle := time.NewTimer(c.timing.KeepAlive)
	defer idle.Stop()
	var batch []byte
	for {
		select {
		case <-c.retired:
			_ = c.tls.CloseWrite() // the reader reports a broken connection
			return nil
		default:
		}
		last := time.Now()
		var frames int
		batch, frames = c.queue.take(batch[:0], batchBytes)
		if frames > 0 {
			c.count.framesOut.Add(uint64(frames))
			c.touch()
		}
		if len(batch) > 0 {
			if err := c.flush(batch); err != nil {
				c.close()
				return err
			}
			idle.Reset(c.timing.KeepAlive)
		}
		if cap(batch) > 4*batchBytes {
			batch = nil // after a huge frame
		}
		if !c.pause(ended, idle, last) {
			return nil
		}
	}
}

// pause waits until there may be something to write; false once the reader has ended.
func (c *conn) pause(ended <-chan struct{}, idle *time.Timer, last time.Time) bool {
	select {
	case <-c.queue.wake:
	case <-idle.C:
		_ = c.queue.push(frame{kind: frameIdle}, true)
		return true
	case <-c.retired:
		return true
	case <-ended:
		return false
	}
	rest := c.timing.Coalesce - time.Since(last)
	if bulk, control := c.queue.waiting(); rest <= 0 || control > 0 || bulk >= batchBytes {
		return true
	}
	gather := time.NewTimer(rest)
	defer gather.Stop()
	select {
	case <-gather.C:
	case <-c.queue.urgent:
	case <-c.retired:
	case <-ended:
		return false
	}
	return true
}

func (c *conn) flush(batch []byte) error {
	if c.dark != nil && c.dark() {
		return nil
	}
	if err := c.tls.SetWriteDeadline(time.Now().Add(c.timing.WriteTimeout)); err != nil {
		return err
	}
	_, err := c.tls.Write(batch)
	c.count.bytesOut.Add(uint64(len(batch)))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the peer took nothing for " + c.timing.WriteTimeout.String())
	}
	return err
}

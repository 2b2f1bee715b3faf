package sim

import (
	"time"

	"starling.dev/starling/peer"
)

// network carries messages between machines, badly.
type network struct {
	w *World
	// links[from][to] is the way in one direction.
	links [][]link
	// views[a][b] is what machine a was told of machine b.
	views [][]view
}

// link is one direction between two machines.
type link struct {
	blocks int           // partitions that block it
	clog   time.Duration // until then nothing arrives
	// heard is when a message last arrived.
	heard   time.Duration
	arrived bool
}

func newNetwork(w *World) *network { return &network{w: w} }

// grow makes room for one machine more.
func (n *network) grow() {
	size := len(n.w.machines)
	for i := range n.links {
		n.links[i] = append(n.links[i], link{})
		n.views[i] = append(n.views[i], view{})
	}
	n.links = append(n.links, make([]link, size))
	n.views = append(n.views, make([]view, size))
}

// send puts a message on its way; some are lost, some come twice.
func (n *network) send(from *machine, e peer.Envelope) {
	to := n.w.byID[e.To]
	if to == nil {
		return
	}
	n.w.check.sent(from, e.Message)
	n.w.figures.Messages++
	r := n.w.random.net
	l := &n.links[from.index][to.index]
	if l.blocks > 0 || n.faulty() && r.chance(n.w.weather.loss) {
		n.w.figures.Lost++
		return
	}
	msg := e.Message
	if n.w.weather.wire {
		msg = n.recode(from, msg)
	}
	n.carry(from, to, msg)
	if n.faulty() && r.chance(n.w.weather.replay) {
		n.w.after(r.about(time.Second), func() { n.carry(from, to, msg) })
		n.w.sometimes("a message is replayed")
	}
}

func (n *network) faulty() bool { return n.w.faulty }

// recode has a message go through its encoding.
func (n *network) recode(from *machine, m peer.Message) peer.Message {
	frame := peer.EncodeMessage(m)
	n.w.figures.Bytes += len(frame)
	again, err := peer.DecodeMessage(frame)
	if err != nil {
		n.w.fail(1, "%s sent a %T that can't be read back: %v", from.name, m, err)
	}
	return again
}

// carry brings a message to the other side after a while. Later ones may overtake it.
func (n *network) carry(from, to *machine, msg peer.Message) {
	delay := 20*time.Microsecond + n.w.random.net.about(n.w.weather.delay)
	l := &n.links[from.index][to.index]
	if l.clog > n.w.now+delay {
		delay = l.clog - n.w.now + n.w.random.net.about(n.w.weather.delay)
	}
	n.w.after(delay, func() { n.arrive(from, to, msg) })
}

func (n *network) arrive(from, to *machine, msg peer.Message) {
	l := &n.links[from.index][to.index]
	if l.blocks > 0 || to.core == nil {
		n.w.figures.Lost++
		return
	}
	l.heard, l.arrived = n.w.now, true
	n.w.trace.note(n.w.now, 'm', from.index, to.index, 0)
	if n.w.trace.out != nil {
		n.w.detail("%s -> %s %s", from.name, to.name, describe(msg))
	}
	to.receive(from.id, msg)
}

// block cuts the way from one side to the other, and back unless it is one way only.
// It returns what mends it.
func (n *network) block(side map[int]bool, oneWay bool) (mend func()) {
	var cut [][2]int
	for a := range n.w.machines {
		for b := range n.w.machines {
			if side[a] && !side[b] || !oneWay && side[b] && !side[a] {
				n.links[a][b].blocks++
				cut = append(cut, [2]int{a, b})
			}
		}
	}
	n.changed()
	mended := false
	return func() {
		if mended {
			return
		}
		mended = true
		for _, c := range cut {
			n.links[c[0]][c[1]].blocks--
		}
		n.changed()
	}
}

// heal opens every link.
func (n *network) heal() {
	for a := range n.links {
		for b := range n.links[a] {
			n.links[a][b].blocks, n.links[a][b].clog = 0, 0
		}
	}
	n.changed()
}

// twoWay reports whether two machines can talk to each other directly.
func (n *network) twoWay(a, b *machine) bool {
	return a.core != nil && b.core != nil && !a.gone && !b.gone &&
		n.links[a.index][b.index].blocks == 0 && n.links[b.index][a.index].blocks == 0
}

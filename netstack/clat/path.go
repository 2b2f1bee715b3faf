package clat

import (
	"net/netip"
	"time"

	"starling.dev/starling/netstack/xlat"
)

// worker is what one goroutine needs to translate: buffers, and what is being put
// together. A link takes one while it has packets to read, so that memory depends on the
// number of cores and not on that of pods.
type worker struct {
	in []byte
	// near holds what the first translation emits, far what the second does, and back
	// an answer on its way to the sender. All leave room for a virtio header.
	near, far, back *xlat.Out
}

// newWorker makes a worker. Workers count IPv4 identifications from different seeds, so
// that packets which they send at the same time differ.
func newWorker(seed uint16) *worker {
	const small = 2048
	return &worker{
		in:   make([]byte, virtioLen+65535),
		near: xlat.NewOut(virtioLen, small, seed),
		far:  xlat.NewOut(virtioLen, small, seed),
		back: xlat.NewOut(virtioLen, small, seed),
	}
}

// offload is what the kernel has left undone in a packet: for a superpacket, the header
// that says how to cut it, and the length of the transport header.
type offload struct {
	virtio
	transport int
}

// admit takes the virtio header off a packet and does what is left undone, unless the
// packet is a superpacket. ok is false for one that makes no sense.
func admit(b []byte) (packet []byte, off offload, ok bool) {
	if len(b) <= virtioLen {
		return nil, off, false
	}
	h, packet := readVirtio(b), b[virtioLen:]
	if h.super() {
		off = offload{virtio: h, transport: h.transport(packet)}
		return packet, off, off.transport > 0
	}
	return packet, off, !h.partial() || h.complete(packet)
}

// lane is what a packet's way needs besides the packet: the worker that the link has
// taken, the present view, and the link's own reassembler.
type lane struct {
	d    *Device
	w    *worker
	v    *view
	join *reassembler
}

// fromPod handles a packet that a program in a pod has sent to an IPv4 address.
func (l *lane) fromPod(p *pod, b []byte) {
	packet, off, ok := admit(b)
	if !ok || packet[0]>>4 != 4 || len(packet) < 20 {
		l.d.counts.malformed.Add(1)
		return
	}
	if source, _ := netip.AddrFromSlice(packet[12:16]); source != PodAddress {
		l.d.counts.spoofed.Add(1)
		return
	}
	switch r := l.translate(p.clat, l.w.near, packet, off); r.Verdict {
	case xlat.Translated:
		for i := range l.w.near.Len() {
			l.second(l.w.near.Packet(i), off, l.v.nat64, l.v.machine, p.clat, p.link)
		}
	case xlat.Answered:
		l.answer(p.link, l.w.near)
	default:
		l.d.counts.drop(r)
	}
}

// fromMachine handles a packet that the kernel has routed to the NAT64: IPv6 from a pod,
// or IPv4 that comes back.
func (l *lane) fromMachine(b []byte) {
	packet, off, ok := admit(b)
	if !ok {
		l.d.counts.malformed.Add(1)
		return
	}
	if packet[0]>>4 == 6 && len(packet) >= 40 {
		if packet[24] == 0xff {
			return // the kernel's own talk on a new link (multicast listener reports)
		}
		// No pod may speak in the name of an IPv4 host, or of another pod's CLAT.
		source, _ := netip.AddrFromSlice(packet[8:24])
		if l.d.cfg.Prefix.Contains(source) || between.Contains(source) {
			l.d.counts.spoofed.Add(1)
			return
		}
	}
	p := l.v.destination(packet)
	switch r := l.translate(l.v.nat64, l.w.near, packet, off); {
	case r.Verdict == xlat.Answered:
		l.answer(l.v.machine, l.w.near)
	case r.Verdict != xlat.Translated:
		l.d.counts.drop(r)
	case p == nil:
		l.send(l.v.machine, l.w.near, off)
	default:
		for i := range l.w.near.Len() {
			l.second(l.w.near.Packet(i), off, p.clat, p.link, l.v.nat64, l.v.machine)
		}
	}
}

// second takes a packet, IPv6 since the first translation, through the second one to a
// link. An answer goes back through the first to the link that the packet came from.
func (l *lane) second(packet []byte, off offload, to *xlat.Translator, link *tun, back *xlat.Translator, from *tun) {
	switch r := l.translate(to, l.w.far, packet, off); r.Verdict {
	case xlat.Translated:
		l.send(link, l.w.far, off)
	case xlat.Answered:
		l.w.back.Reset()
		if back.Translate(l.w.back, l.w.far.Packet(0)).Verdict == xlat.Translated {
			l.answer(from, l.w.back)
		}
	default:
		l.d.counts.drop(r)
	}
}

// destination is the pod behind whose CLAT an IPv4 packet belongs; nil if none.
func (v *view) destination(packet []byte) *pod {
	if packet[0]>>4 != 4 || len(packet) < 20 {
		return nil
	}
	return v.behind[netip.AddrFrom4([4]byte(packet[16:20]))]
}

// translate translates a packet into out. A fragment of an ICMP message waits for the
// others, and the last one brings the message.
func (l *lane) translate(t *xlat.Translator, out *xlat.Out, packet []byte, off offload) xlat.Result {
	out.Reset()
	if off.transport > 0 {
		return t.TranslateSuper(out, packet, off.transport, int(off.segment))
	}
	r := t.Translate(out, packet)
	if r.Verdict != xlat.Incomplete {
		return r
	}
	if joined := l.join.add(packet); joined != nil {
		return t.Translate(out, joined)
	}
	return r
}

// send writes what a translation has emitted.
func (l *lane) send(t *tun, out *xlat.Out, off offload) {
	for _, b := range out.Buffers() {
		h := virtio{}
		if off.transport > 0 {
			h = off.moved(b[virtioLen:], off.transport)
		}
		h.put(b)
		if err := t.write(b); err != nil {
			l.d.counts.unsent.Add(1)
		}
	}
}

// answer writes an ICMP error of ours, unless there were too many lately.
func (l *lane) answer(t *tun, out *xlat.Out) {
	if !l.d.errors.allow() {
		l.d.counts.limited.Add(1)
		return
	}
	l.send(t, out, offload{})
}

// readLink reads a link until it is stopped or fails.
func (d *Device) readLink(t *tun, handle func(*lane, []byte)) error {
	l := lane{d: d, join: newReassembler(time.Now)}
	return t.drain(
		func() []byte {
			l.w = <-d.workers
			return l.w.in
		},
		func(b []byte) {
			l.v = d.view.Load()
			handle(&l, b)
		},
		func() { d.workers <- l.w },
	)
}

package xlat

// Out receives the packets that translations emit, one after the other, in buffers that
// it keeps and uses again. It belongs to one goroutine at a time.
type Out struct {
	headroom, size int
	bufs           [][]byte // whole buffers; the first n are in use, cut to their packet's end
	n              int
	id             uint16 // the next IPv4 identification
	scratch        *Out   // for the middle of a hairpin; made when first needed
}

// NewOut returns an Out that leaves headroom bytes free before each packet, and makes
// each buffer large enough for a packet of size bytes. A packet that needs more gets a
// larger buffer. The identification seed is where IPv4 identifications start counting.
func NewOut(headroom, size int, seed uint16) *Out {
	return &Out{headroom: headroom, size: size, id: seed}
}

// Reset forgets the packets. Their buffers are used again, so earlier slices of them
// must not be read any more.
func (o *Out) Reset() { o.n = 0 }

// Len is the number of packets emitted since the last Reset.
func (o *Out) Len() int { return o.n }

// Packet returns the i-th packet. It is valid until the next Reset.
func (o *Out) Packet(i int) []byte { return o.bufs[i][o.headroom:] }

// Buffers returns the packets with their headroom, as drivers want them. The caller may
// change the slices' lengths and order; Reset takes all of them back.
func (o *Out) Buffers() [][]byte { return o.bufs[:o.n] }

// alloc appends a packet of n bytes whose content is not defined.
func (o *Out) alloc(n int) []byte {
	need := o.headroom + n
	if o.n == len(o.bufs) {
		o.bufs = append(o.bufs, make([]byte, max(need, o.headroom+o.size)))
	}
	b := o.bufs[o.n]
	if cap(b) < need {
		b = make([]byte, need)
	}
	b = b[:need]
	o.bufs[o.n] = b
	o.n++
	return b[o.headroom:]
}

// trim cuts the last packet to n bytes.
func (o *Out) trim(n int) { o.bufs[o.n-1] = o.bufs[o.n-1][:o.headroom+n] }

// drop takes the last packet back.
func (o *Out) drop() { o.n-- }

// nextID returns a fresh IPv4 identification.
func (o *Out) nextID() uint16 {
	o.id++
	return o.id
}

// middle returns the scratch Out of a hairpin, empty.
func (o *Out) middle() *Out {
	if o.scratch == nil {
		o.scratch = NewOut(0, 0, o.id)
	}
	o.scratch.Reset()
	return o.scratch
}

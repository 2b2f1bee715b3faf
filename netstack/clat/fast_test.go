package clat

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/fastpath"
	"starling.dev/starling/netstack/xlat"
)

// The eBPF programs are compared with package xlat: what they take must come out as the
// same bytes, and they must take all that is simple.

const ethernet = 14

// twins are both ways for one pod's packets.
type twins struct {
	t           *testing.T
	p           *pod
	nat64, clat *xlat.Translator
	path        *fastpath.Path
	taken, left int
}

func newTwins(t *testing.T, prefix netip.Prefix) *twins {
	if os.Geteuid() != 0 {
		t.Skip("eBPF needs root")
	}
	cfg := Config{Log: slog.New(slog.DiscardHandler), Prefix: prefix}.withDefaults()
	native := netip.MustParseAddr("10.62.77.5")
	w := &twins{t: t, p: &pod{Pod: Pod{ID: "a", Address: netip.MustParseAddr("fd00:1::77")}, native: native, behind: cfg.behind(native)}}
	var err error
	must := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.nat64, err = xlat.New(cfg.nat64(map[string]*pod{"a": w.p}, nil))
	must()
	w.clat, err = xlat.New(cfg.clat(w.p))
	must()
	fast := cfg.fast()
	fast.Header = ethernet
	w.path, err = fastpath.Load(fast, 0)
	must()
	t.Cleanup(func() { w.path.Close() })
	err = w.path.Known(fastpath.Tried(w.p.Address, w.p.native, w.p.behind))
	must()
	return w
}

// compare gives one packet to both ways at a place, and tells whether the fast one took
// it.
func (w *twins) compare(at fastpath.Place, packet []byte) bool {
	w.t.Helper()
	frame := append(make([]byte, ethernet-2, ethernet+len(packet)), 0x08, 0)
	if packet[0]>>4 == 6 {
		copy(frame[12:], []byte{0x86, 0xdd})
	}
	frame = append(frame, packet...)
	decision, out, err := w.path.Try(at, frame)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(out) < ethernet || decision == fastpath.Dropped || bytes.Equal(out, frame) {
		w.left++
		return false
	}
	w.taken++
	want := w.slow(packet)
	if len(want) != 1 || !same(out[ethernet:], want[0]) {
		w.t.Fatalf("%s, packet %x\nfast %x\nslow %x", at, packet, out[ethernet:], want)
	}
	return true
}

// slow takes a packet the way of the TUN links.
func (w *twins) slow(packet []byte) (packets [][]byte) {
	first, second := w.nat64, (*xlat.Translator)(nil)
	if packet[0]>>4 == 4 {
		source, destination := netip.AddrFrom4([4]byte(packet[12:])), netip.AddrFrom4([4]byte(packet[16:]))
		switch {
		case source == PodAddress:
			first, second = w.clat, w.nat64
		case destination == w.p.behind:
			second = w.clat
		}
	}
	near, far := xlat.NewOut(0, 2048, 0), xlat.NewOut(0, 2048, 0)
	if first.Translate(near, packet).Verdict != xlat.Translated {
		return nil
	}
	if second == nil {
		return near.Buffers()
	}
	for i := range near.Len() {
		if second.Translate(far, near.Packet(i)).Verdict != xlat.Translated {
			return nil
		}
	}
	return far.Buffers()
}

// same compares packets but for the identification of an IPv4 packet that may be
// fragmented, which is a fresh one each time, and the header checksum that covers it.
func same(a, b []byte) bool {
	a, b = bytes.Clone(a), bytes.Clone(b)
	for _, p := range [][]byte{a, b} {
		if len(p) < 20 || p[0]>>4 != 4 {
			continue
		}
		sum := uint32(0)
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		if (sum&0xffff+sum>>16)%0xffff != 0 {
			return false
		}
		if p[6]&0x40 == 0 {
			clear(p[4:6])
			clear(p[10:12])
		}
	}
	return bytes.Equal(a, b)
}

var serverAddress = netip.MustParseAddr("198.51.100.7")

// ends are the addresses of a packet at a place, in the family that is asked for.
func (w *twins) ends(at fastpath.Place, version byte, r *rand.Rand) (src, dst netip.Addr) {
	switch {
	case version == 6:
		return w.p.Address, xlat.Embed(w.nat64Prefix(), serverAddress)
	case at == fastpath.ToPod && r.IntN(2) == 0:
		return serverAddress, w.p.native
	case at == fastpath.ToPod:
		return serverAddress, w.p.behind
	}
	return PodAddress, serverAddress
}

func (w *twins) nat64Prefix() netip.Prefix {
	a, _ := w.nat64.Map4(serverAddress)
	return netip.PrefixFrom(a, 96).Masked()
}

// TestFastPathEqualsXlat throws packets of all kinds, right and wrong ones, at both ways.
func TestFastPathEqualsXlat(t *testing.T) {
	w := newTwins(t, netip.Prefix{})
	r := rand.New(rand.NewPCG(1, 7915))
	for range 20000 {
		at, version := fastpath.FromPod, byte(4+2*r.IntN(2))
		if r.IntN(2) == 0 {
			at, version = fastpath.ToPod, 4
		}
		src, dst := w.ends(at, version, r)
		packet := draw(r, src, dst)
		plain := bytes.Clone(packet)
		simple := spoil(r, packet)
		if took := w.compare(at, packet); simple && !took {
			t.Fatalf("%s: a simple packet was not taken: %x (%x)", at, packet, plain)
		}
	}
	if w.taken < 8000 || w.left < 3000 {
		t.Errorf("%d packets taken, %d left: both must be well tried", w.taken, w.left)
	}
	counts, err := w.path.Counts()
	if err != nil || counts.Total() != uint64(w.taken) {
		t.Errorf("%d packets counted, %d taken (%v)", counts.Total(), w.taken, err)
	}
}

// TestFastPathOnVectors gives the packets of the translator's vectors to both ways, as
// this pod's.
func TestFastPathOnVectors(t *testing.T) {
	w := newTwins(t, netip.Prefix{})
	files, err := filepath.Glob("../xlat/testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("the translator's vectors are missing: %v", err)
	}
	r := rand.New(rand.NewPCG(2, 6145))
	for _, packet := range vectorPackets(t, files) {
		for _, at := range []fastpath.Place{fastpath.FromPod, fastpath.ToPod} {
			if len(packet) < 20 || packet[0]>>4 == 6 && len(packet) < 40 {
				continue
			}
			p := bytes.Clone(packet)
			src, dst := w.ends(at, p[0]>>4, r)
			if p[0]>>4 == 4 {
				copy(p[12:], src.AsSlice())
				copy(p[16:], dst.AsSlice())
				if p[0] == 0x45 {
					seal(p)
				}
			} else {
				copy(p[8:], src.AsSlice())
				copy(p[24:], dst.AsSlice())
			}
			w.compare(at, p)
		}
	}
	if w.taken < 50 || w.left < 50 {
		t.Errorf("%d packets taken, %d left", w.taken, w.left)
	}
}

// TestFastPathKeepsToPrefix: the well-known prefix must not stand for private addresses.
func TestFastPathKeepsToPrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 6052))
	for prefix, global := range map[string]bool{"64:ff9b::/96": true, "64:ff9b:1::/96": false} {
		w := newTwins(t, netip.MustParsePrefix(prefix))
		for address, want := range map[string]bool{
			"10.1.2.3": !global, "192.168.1.1": !global, "203.0.113.9": !global, "8.8.8.8": true, "10.62.9.9": false,
			"127.0.0.1": false, "0.1.2.3": false, "224.0.0.1": false, "255.255.255.255": false,
		} {
			to := netip.MustParseAddr(address)
			for _, packet := range [][]byte{
				draw(r, w.p.Address, xlat.Embed(netip.MustParsePrefix(prefix), to)), draw(r, PodAddress, to),
			} {
				if took := w.compare(fastpath.FromPod, packet); took != want {
					t.Errorf("prefix %s, to %s (IPv%d): taken is %v, want %v", prefix, to, packet[0]>>4, took, want)
				}
			}
		}
	}
}

// TestCLATSendsWhatIsTaken: what a pod's CLAT link passes by the TUN is taken at the
// other end, and what it doesn't would not be.
func TestCLATSendsWhatIsTaken(t *testing.T) {
	w := newTwins(t, netip.Prefix{})
	r := rand.New(rand.NewPCG(4, 6877))
	passed := 0
	for range 2000 {
		packet := draw(r, PodAddress, serverAddress)
		spoil(r, packet)
		frame := append(append(make([]byte, 12), 0x08, 0), packet...)
		decision, _, err := w.path.Try(fastpath.FromInner, frame)
		if err != nil {
			t.Fatal(err)
		}
		if decision == fastpath.Redirected {
			passed++
		}
		if took := w.compare(fastpath.FromPod, packet); took != (decision == fastpath.Redirected) {
			t.Fatalf("passed is %v, taken is %v: %x", decision, took, packet)
		}
	}
	if passed < 500 {
		t.Errorf("only %d packets were passed", passed)
	}
}

// TestNoFastPathIsSaidOnce: a kernel that takes no programs is no reason to fail.
func TestNoFastPathIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	d, err := New(Config{Link: "nowhere", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	d.openFast()
	d.hasten(&pod{})
	d.hasten(&pod{})
	if n := strings.Count(log.String(), "level="); n != 1 || !strings.Contains(log.String(), "no fast path for IPv4") {
		t.Errorf("said %d times:\n%s", n, &log)
	}
}

// TestZeroUDPChecksum: a checksum that comes to zero is sent as 0xffff, since zero would
// say that there is none.
func TestZeroUDPChecksum(t *testing.T) {
	w := newTwins(t, netip.Prefix{})
	r := rand.New(rand.NewPCG(5, 768))
	tried := 0
	for tried < 100 {
		for at, version := range map[fastpath.Place]byte{fastpath.FromPod: byte(4 + 2*r.IntN(2)), fastpath.ToPod: 4} {
			src, dst := w.ends(at, version, r)
			packet := draw(r, src, dst)
			header, protocol := 20, 9
			if version == 6 {
				header, protocol = 40, 6
			}
			if packet[protocol] != unix.IPPROTO_UDP || len(packet) < header+10 {
				continue
			}
			// What the translated packet has as its checksum is added to its first word.
			out := w.slow(packet)[0]
			field := 26 // of IPv4
			if out[0]>>4 == 6 {
				field = 46
			}
			sum := uint32(binary.BigEndian.Uint16(out[field:])) + uint32(binary.BigEndian.Uint16(packet[header+8:]))
			binary.BigEndian.PutUint16(packet[header+8:], uint16(sum+sum>>16))
			finish(unix.IPPROTO_UDP, 6, packet, header)
			if got := binary.BigEndian.Uint16(w.slow(packet)[0][field:]); got != 0xffff {
				t.Fatalf("the checksum was to come to zero, and is %#x", got)
			}
			if !w.compare(at, packet) {
				t.Fatalf("%s: %x was not taken", at, packet)
			}
			tried++
		}
	}
}

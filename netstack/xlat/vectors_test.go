package xlat

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// notMet lists the vectors that this translator does not meet by choice, and why.
var notMet = map[string]string{}

// vector is one line of a vector file: a packet, and the packets that must come out.
type vector struct {
	ID       string       `json:"id"`
	Config   vectorConfig `json:"config"`
	From, To int
	In       string
	Out      []string
	Ignore   []int // offsets of bytes that are not compared
	Verdict  string
}

type vectorConfig struct {
	Pool6       *netip.Prefix     `json:"pool6"`
	EAM         [][2]netip.Prefix `json:"eam"`
	Amend       bool              `json:"amend_udp_checksum_zero"`
	LowestMTU6  int               `json:"lowest_ipv6_mtu"`
	MTU4        int               `json:"mtu4"`
	MTU6        int               `json:"mtu6"`
	Source4     *netip.Addr       `json:"rfc6791v4"`
	Source6     *netip.Addr       `json:"rfc6791v6"`
	Translator4 *netip.Addr       `json:"translator4"`
	Translator6 *netip.Addr       `json:"translator6"`
	ClearClass  bool              `json:"clear_traffic_class"`
	Hairpin     Hairpin           `json:"hairpin"`
}

func (v vectorConfig) config() Config {
	c := Config{
		ComputeUDPChecksum: v.Amend, LowestMTU6: v.LowestMTU6, MTU4: v.MTU4, MTU6: v.MTU6,
		ClearTrafficClass: v.ClearClass, Hairpin: v.Hairpin,
	}
	if v.Pool6 != nil {
		c.Prefix = *v.Pool6
	}
	for _, e := range v.EAM {
		c.Mappings = append(c.Mappings, Mapping{IPv6: e[0], IPv4: e[1]})
	}
	for _, a := range []struct {
		from *netip.Addr
		to   *netip.Addr
	}{{v.Translator4, &c.Translator4}, {v.Translator6, &c.Translator6}} {
		if a.from != nil {
			*a.to = *a.from
		}
	}
	if v.Source4 != nil {
		c.ErrorSources4 = netip.PrefixFrom(*v.Source4, 32)
	}
	if v.Source6 != nil {
		c.ErrorSources6 = netip.PrefixFrom(*v.Source6, 128)
	}
	return c
}

// TestVectors runs the project's own vectors and each file of the conformance folder.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("the project's own vectors are missing: %v", err)
	}
	dir := os.Getenv("STARLING_VECTORS")
	if dir == "" {
		dir = "../../../shared/conformance"
	}
	more, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(more) == 0 {
		t.Logf("no conformance vectors: neither STARLING_VECTORS nor %s has a *.jsonl file; running only our own", dir)
	}
	for _, file := range append(files, more...) {
		t.Run(filepath.Base(file), func(t *testing.T) { runVectors(t, file) })
	}
}

func runVectors(t *testing.T, file string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		n++
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		t.Run(fmt.Sprintf("%d/%s", n, v.ID), func(t *testing.T) { v.run(t) })
	}
	if err := lines.Err(); err != nil || n == 0 {
		t.Fatalf("%d vectors read: %v", n, err)
	}
	t.Logf("%d vectors", n)
}

func (v vector) run(t *testing.T) {
	if why, ok := notMet[v.ID]; ok {
		t.Log("not met by choice: " + why)
		return
	}
	tr, err := New(v.Config.config())
	if err != nil {
		t.Fatal(err)
	}
	in, err := hex.DecodeString(v.In)
	if err != nil {
		t.Fatal(err)
	}
	out := NewOut(0, 1500, 0)
	result := tr.Translate(out, in)
	if v.Verdict != "" && result.String() != v.Verdict {
		t.Errorf("%v, want %s", result, v.Verdict)
	}
	if out.Len() != len(v.Out) {
		t.Fatalf("%d packets, want %d (%v)", out.Len(), len(v.Out), result)
	}
	for i := range v.Out {
		want, err := hex.DecodeString(v.Out[i])
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(out.Packet(i), want, v.Ignore); d != "" {
			t.Errorf("packet %d of %d (%v): %s", i+1, len(v.Out), result, d)
		}
	}
}

// difference describes the first difference between two packets, or is empty.
func difference(got, want []byte, ignore []int) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes, want %d\ngot  %x\nwant %x", len(got), len(want), got, want)
	}
	for i := range got {
		if got[i] != want[i] && !slices.Contains(ignore, i) {
			return fmt.Sprintf("byte %d is %#02x, want %#02x\ngot  %x\nwant %x", i, got[i], want[i], got, want)
		}
	}
	return ""
}

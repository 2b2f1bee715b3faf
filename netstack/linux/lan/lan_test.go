package lan_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/netstack/linux/lan"
)

func newLAN(t *testing.T, dir, name string, nodes int) *lan.LAN {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	l, err := lan.New(lan.Config{Name: name, Nodes: nodes, Namespaces: dir})
	check(t, err)
	t.Cleanup(func() { check(t, l.Remove()) })
	check(t, l.Up(t.Context()))
	return l
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// station answers datagrams on every machine of a LAN.
type station struct {
	t     *testing.T
	l     *lan.LAN
	conns map[int]*net.UDPConn
}

func stations(t *testing.T, l *lan.LAN) *station {
	s := &station{t, l, map[int]*net.UDPConn{}}
	for _, node := range l.Nodes() {
		check(t, l.Within(node.N, func() (err error) {
			s.conns[node.N], err = net.ListenUDP("udp", &net.UDPAddr{Port: 7})
			return err
		}))
		t.Cleanup(func() { s.conns[node.N].Close() })
	}
	return s
}

// send sends so many datagrams from one machine to another and returns how many
// arrive, giving up on the rest a while after the last one.
func (s *station) send(from, to int, addr netip.Addr, count int) int {
	for i := range count {
		_, err := s.conns[from].WriteToUDPAddrPort(fmt.Append(nil, i), netip.AddrPortFrom(addr, 7))
		check(s.t, err)
	}
	buf := make([]byte, 64)
	for got := 0; ; got++ {
		s.conns[to].SetReadDeadline(time.Now().Add(400 * time.Millisecond))
		if got == count {
			return got
		}
		if _, err := s.conns[to].Read(buf); err != nil {
			return got
		}
	}
}

// hears tells for each pair of machines whether one datagram gets through: "1>2 1>3 …".
func (s *station) hears() string {
	var pairs []string
	for _, from := range s.l.Nodes() {
		for _, to := range s.l.Nodes() {
			if from.N != to.N && s.send(from.N, to.N, to.IPv6.Addr(), 1) == 1 {
				pairs = append(pairs, fmt.Sprintf("%d>%d", from.N, to.N))
			}
		}
	}
	return strings.Join(pairs, " ")
}

const everyone = "1>2 1>3 2>1 2>3 3>1 3>2"

func (s *station) expect(want string) {
	s.t.Helper()
	if got := s.hears(); got != want {
		s.t.Errorf("through come %s; want %s", got, want)
	}
}

func TestMachinesHearEachOtherInBothFamilies(t *testing.T) {
	l := newLAN(t, t.TempDir(), "a", 2)
	s := stations(t, l)
	to := l.Node(2)
	for _, p := range []netip.Prefix{to.IPv6, to.IPv4} {
		if s.send(1, 2, p.Addr(), 3) != 3 {
			t.Errorf("nothing comes to %s", p.Addr())
		}
	}
}

func TestPartitionAndHeal(t *testing.T) {
	l := newLAN(t, t.TempDir(), "a", 3)
	s := stations(t, l)
	s.expect(everyone)
	check(t, l.Partition([][]int{{1, 2}, {3}}))
	s.expect("1>2 2>1")
	check(t, l.Partition([][]int{{2}})) // those that are named nowhere stay together
	s.expect("1>3 3>1")
	check(t, l.Heal())
	check(t, l.Heal())
	s.expect(everyone)
	check(t, l.Cut(1, []int{2}))
	s.expect("1>2 1>3 2>3 3>1 3>2")
}

func TestPartitionRefusesWhatIsNotThere(t *testing.T) {
	l := newLAN(t, t.TempDir(), "a", 2)
	for want, groups := range map[string][][]int{"not 3": {{1}, {3}}, "two groups": {{1}, {1, 2}}} {
		if err := l.Partition(groups); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", groups, err)
		}
	}
}

func TestLoss(t *testing.T) {
	l := newLAN(t, t.TempDir(), "a", 2)
	s := stations(t, l)
	const many = 150 // fit into a socket's buffer
	rounds := func() (got int) {
		for range 4 {
			got += s.send(1, 2, l.Node(2).IPv6.Addr(), many)
		}
		return got
	}
	if got := rounds(); got != 4*many {
		t.Fatalf("%d of %d arrive without loss", got, 4*many)
	}
	check(t, l.Loss(30))
	// 600 draws of 0.7: the mean is 420, one standard deviation 11.
	if got := rounds(); got < 340 || got > 500 {
		t.Errorf("%d of %d arrive at a loss of 30%%", got, 4*many)
	}
	check(t, l.Loss(0))
	if got := rounds(); got != 4*many {
		t.Errorf("%d of %d arrive after the loss ended", got, 4*many)
	}
	if l.Loss(101) == nil {
		t.Error("a loss of 101% is taken")
	}
}

func TestLinkDownAndUp(t *testing.T) {
	l := newLAN(t, t.TempDir(), "a", 3)
	s := stations(t, l)
	check(t, l.LinkDown(2))
	s.expect("1>3 3>1")
	check(t, l.LinkUp(2))
	// The carrier comes back by a deferred job, and who was asked for in vain is asked
	// for again after a while.
	for end := time.Now().Add(10 * time.Second); s.hears() != everyone; {
		if time.Now().After(end) {
			t.Fatalf("through come %s", s.hears())
		}
	}
}

func TestUpRepairsAndIsIdempotent(t *testing.T) {
	dir := t.TempDir()
	l := newLAN(t, dir, "a", 3)
	s := stations(t, l)
	check(t, l.Partition([][]int{{1}}))
	check(t, l.Up(t.Context()))
	s.expect("2>3 3>2") // Up heals nothing

	more, err := lan.New(lan.Config{Name: "a", Nodes: 4, Namespaces: dir})
	check(t, err)
	check(t, more.Up(t.Context()))
	check(t, more.Within(4, func() error {
		conn, err := net.Dial("udp", netip.AddrPortFrom(l.Node(2).IPv6.Addr(), 7).String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("hello"))
		return err
	}))
	buf := make([]byte, 64)
	s.conns[2].SetReadDeadline(time.Now().Add(5 * time.Second))
	n, from, err := s.conns[2].ReadFromUDPAddrPort(buf)
	if err != nil || string(buf[:n]) != "hello" || from.Addr() != l.Node(4).IPv6.Addr() {
		t.Errorf("machine 2 hears %q from %s, %v", buf[:n], from, err)
	}
}

// A lab is removed by its name, whoever made it, in whatever state, and no other.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	newLAN(t, dir, "a", 2)
	other := newLAN(t, dir, "a-b", 2)
	l, err := lan.New(lan.Config{Name: "a", Namespaces: dir})
	check(t, err)
	half := filepath.Join(dir, "starling-lab.a.9") // the maker was killed here
	check(t, os.WriteFile(half, nil, 0o444))
	for range 2 {
		check(t, l.Remove())
	}
	left, err := filepath.Glob(filepath.Join(dir, "starling-lab.a.*"))
	check(t, err)
	if len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if s := stations(t, other); s.send(1, 2, other.Node(2).IPv6.Addr(), 1) != 1 {
		t.Error("another lab was harmed")
	}
	if err := l.Within(1, func() error { return nil }); err == nil || !strings.Contains(err.Error(), "lab a has no machine 1") {
		t.Errorf("entering what was removed: %v", err)
	}
}

// A process that outlives its lab is cut off.
func TestRemoveCutsOffWhatStillRuns(t *testing.T) {
	l := newLAN(t, t.TempDir(), "a", 2)
	s := stations(t, l)
	check(t, l.Remove())
	_, err := s.conns[1].WriteToUDPAddrPort([]byte("x"), netip.AddrPortFrom(l.Node(2).IPv6.Addr(), 7))
	if err == nil {
		t.Error("a socket of the lab still sends")
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []lan.Config{{}, {Name: "a/b"}, {Name: "a", Nodes: -1}, {Name: "a", Nodes: lan.MaxNodes + 1}} {
		if _, err := lan.New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

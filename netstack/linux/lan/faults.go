package lan

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Each kind of fault has a table of its own, so that one is set without knowing the
// other.
const (
	cutTable  = "starling-lab-cut"
	lossTable = "starling-lab-loss"
)

// Partition cuts the machines into groups that can't hear each other. Machines that
// are in no group form one more. It replaces an earlier partition.
func (l *LAN) Partition(groups [][]int) error {
	group := map[int]int{}
	for i, members := range groups {
		for _, n := range members {
			if n < 1 || n > l.cfg.Nodes {
				return fmt.Errorf("lab %s has machines 1 to %d, not %d", l.cfg.Name, l.cfg.Nodes, n)
			}
			if _, twice := group[n]; twice {
				return fmt.Errorf("machine %d is in two groups", n)
			}
			group[n] = i + 1
		}
	}
	for _, node := range l.Nodes() {
		var deaf []int
		for _, other := range l.Nodes() {
			if group[other.N] != group[node.N] {
				deaf = append(deaf, other.N)
			}
		}
		if err := l.Cut(node.N, deaf); err != nil {
			return err
		}
	}
	return nil
}

// Heal ends every partition and every Cut.
func (l *LAN) Heal() error {
	for _, node := range l.Nodes() {
		if err := l.Cut(node.N, nil); err != nil {
			return err
		}
	}
	return nil
}

// Cut makes machine n deaf to the listed machines and to no others. They still hear
// it: a one-way partition.
func (l *LAN) Cut(n int, from []int) error {
	return l.fault(n, cutTable, len(from) > 0, func(conn *nftables.Conn, t *nftables.Table) ([]expr.Any, error) {
		senders := &nftables.Set{Table: t, Anonymous: true, Constant: true, KeyType: nftables.TypeEtherAddr}
		var elements []nftables.SetElement
		for _, other := range slices.Compact(slices.Sorted(slices.Values(from))) {
			elements = append(elements, nftables.SetElement{Key: l.Node(other).MAC})
		}
		if err := conn.AddSet(senders, elements); err != nil {
			return nil, err
		}
		return []expr.Any{
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseLLHeader, Offset: 6, Len: 6},
			&expr.Lookup{SourceRegister: 1, SetName: senders.Name, SetID: senders.ID},
		}, nil
	})
}

// lossScale is how finely loss is set: hundredths of a percent.
const lossScale = 10_000

// Loss makes every machine lose the given percentage of what it receives; 0 ends it.
func (l *LAN) Loss(percent float64) error {
	for _, node := range l.Nodes() {
		if err := l.LossAt(node.N, percent); err != nil {
			return err
		}
	}
	return nil
}

// LossAt makes machine n lose the given percentage of what it receives.
func (l *LAN) LossAt(n int, percent float64) error {
	if percent < 0 || percent > 100 {
		return fmt.Errorf("loss of %v%%: it must be 0 to 100", percent)
	}
	limit := uint32(percent * lossScale / 100)
	return l.fault(n, lossTable, limit > 0, func(*nftables.Conn, *nftables.Table) ([]expr.Any, error) {
		return []expr.Any{
			&expr.Numgen{Register: 1, Modulus: lossScale, Type: unix.NFT_NG_RANDOM},
			// Registers compare as bytes, so the number is turned to big endian first.
			&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
			&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(limit)},
		}, nil
	})
}

type matcher func(*nftables.Conn, *nftables.Table) ([]expr.Any, error)

// fault replaces the n-th machine's table of that name by one that drops what match
// matches at the ingress of eth0, or removes it.
func (l *LAN) fault(n int, name string, on bool, match matcher) error {
	err := l.Within(n, func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		t := &nftables.Table{Name: name, Family: nftables.TableFamilyNetdev}
		conn.AddTable(t)
		conn.DelTable(t)
		if on {
			if err := addDrop(conn, t, match); err != nil {
				return err
			}
		}
		return conn.Flush()
	})
	if err != nil {
		return fmt.Errorf("set %s of machine %s of lab %s: %w", name, strconv.Itoa(n), l.cfg.Name, err)
	}
	return nil
}

func addDrop(conn *nftables.Conn, t *nftables.Table, match matcher) error {
	conn.AddTable(t)
	chain := conn.AddChain(&nftables.Chain{
		Name: "ingress", Table: t, Type: nftables.ChainTypeFilter, Device: eth0,
		Hooknum: nftables.ChainHookIngress, Priority: nftables.ChainPriorityFilter,
	})
	exprs, err := match(conn, t)
	if err != nil {
		return err
	}
	exprs = append(exprs, &expr.Verdict{Kind: expr.VerdictDrop})
	conn.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: exprs})
	return nil
}

package clat

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// tableRule is one rule of our table, with the comment that it is recognised by: the
// expressions that the kernel returns depend on its version.
type tableRule struct {
	chain, comment string
	exprs          [][]expr.Any
}

// tableRules masquerade what comes from pods, and let nobody else in: neither may a pod
// reach another by its address in the range, nor a stranger open a connection, unless the
// machine itself has led it here. What is only led to opens none.
func tableRules(cfg Config) []tableRule {
	in, out := linkIs(expr.MetaKeyIIFNAME, expr.CmpOpEq, cfg.Link), linkIs(expr.MetaKeyOIFNAME, expr.CmpOpEq, cfg.Link)
	drop := []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
	return []tableRule{
		{"forward", "pods don't reach each other through NAT64 " + cfg.Link, [][]expr.Any{in, out, drop}},
		{"forward", "strangers open no connections through NAT64 " + cfg.Link, [][]expr.Any{out, strangers(), notLed(), drop}},
		{"forward", "what is only led to opens no connections through NAT64 " + cfg.Link, [][]expr.Any{in, from(cfg.leads()), strangers(), drop}},
		{"masquerade", "pods reach IPv4 outside from " + cfg.IPv4.String(),
			[][]expr.Any{from(cfg.IPv4), linkIs(expr.MetaKeyOIFNAME, expr.CmpOpNeq, cfg.Link), {&expr.Masq{}}}},
	}
}

func tableOf(cfg Config) *nftables.Table {
	return &nftables.Table{Name: "starling-" + cfg.Link, Family: nftables.TableFamilyIPv4}
}

// setUpTable replaces our nftables table, which is named after the link, in one
// transaction, unless it is there as it should be.
func setUpTable(cfg Config) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open an nftables socket: %w", err)
	}
	table, rules := tableOf(cfg), tableRules(cfg)
	whole, err := isWhole(conn, table, rules)
	if err != nil || whole {
		return err
	}
	conn.AddTable(table)
	conn.DelTable(table) // what is not there can't be deleted, hence the line before
	conn.AddTable(table)
	conn.AddChain(&nftables.Chain{
		Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	})
	conn.AddChain(&nftables.Chain{
		Name: "masquerade", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	for _, r := range rules {
		conn.AddRule(&nftables.Rule{
			Table: table, Chain: &nftables.Chain{Name: r.chain, Table: table}, Exprs: slices.Concat(r.exprs...),
			UserData: userdata.AppendString(nil, userdata.TypeComment, r.comment),
		})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("set table ip %s: %w", table.Name, err)
	}
	return nil
}

func deleteTable(cfg Config) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open an nftables socket: %w", err)
	}
	conn.AddTable(tableOf(cfg))
	conn.DelTable(tableOf(cfg))
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("delete table ip %s: %w", tableOf(cfg).Name, err)
	}
	return nil
}

// isWhole reports whether the table has the rules, and no others.
func isWhole(conn *nftables.Conn, table *nftables.Table, want []tableRule) (bool, error) {
	chains, err := conn.ListChainsOfTableFamily(table.Family)
	if err != nil {
		return false, fmt.Errorf("list nftables chains: %w", err)
	}
	have := map[string]int{}
	for _, c := range chains {
		if c.Table.Name != table.Name {
			continue
		}
		rules, err := conn.GetRules(table, c)
		if err != nil {
			return false, fmt.Errorf("list the rules of chain %s: %w", c.Name, err)
		}
		for _, r := range rules {
			comment, _ := userdata.GetString(r.UserData, userdata.TypeComment)
			have[c.Name+" "+comment]++
		}
	}
	for _, r := range want {
		if have[r.chain+" "+r.comment] != 1 {
			return false, nil
		}
	}
	return len(have) == len(want), nil
}

func linkIs(key expr.MetaKey, op expr.CmpOp, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: padded}}
}

// strangers matches what belongs to no connection that a pod has opened.
func strangers() []expr.Any {
	known := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: known, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: make([]byte, 4)},
	}
}

// notLed matches what no rule of the machine has given another destination.
func notLed() []expr.Any {
	const destinationNAT = 1 << 5 // IPS_DST_NAT of the kernel's enum ip_conntrack_status
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(destinationNAT), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: make([]byte, 4)},
	}
}

func from(p netip.Prefix) []expr.Any {
	const sourceAt, length = 12, 4
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: sourceAt, Len: length},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: length,
			Mask: net.CIDRMask(p.Bits(), 32), Xor: make([]byte, length),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}

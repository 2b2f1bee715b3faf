package linux

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
)

func ourTable() *nftables.Table {
	return &nftables.Table{Name: netstack.TableName, Family: nftables.TableFamilyINet}
}

func (s *space) nft() (*nftables.Conn, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(s.fd))
	if err != nil {
		return nil, fmt.Errorf("open an nftables socket: %w", err)
	}
	return conn, nil
}

// syncTable replaces our table, in one transaction, if it is not as wanted. Tables of
// others are not looked at.
func (s *space) syncTable(want *netstack.Table) error {
	conn, err := s.nft()
	if err != nil {
		return err
	}
	have, err := tableMarks(conn)
	if err != nil {
		return err
	}
	if slices.Equal(have, wantMarks(want)) {
		return nil
	}
	table := ourTable()
	conn.AddTable(table)
	conn.DelTable(table) // what is not there can't be deleted, hence the line before
	conn.AddTable(table)
	for _, c := range want.Chains {
		addChain(conn, table, c)
	}
	return s.wrote(conn.Flush(), named("table inet "+netstack.TableName))
}

func (s *space) deleteTable() error {
	conn, err := s.nft()
	if err != nil {
		return err
	}
	conn.AddTable(ourTable())
	conn.DelTable(ourTable())
	return s.wrote(conn.Flush(), named("table inet "+netstack.TableName))
}

// mark is what a rule is recognised by: its comment says why it is there and holds a
// hash of all that it is. The kernel keeps comments as they are, while the expressions
// that it returns depend on its version.
func mark(c netstack.Chain, r netstack.Rule) string {
	h := fnv.New32a()
	h.Write([]byte(c.String() + "\n" + r.String()))
	return fmt.Sprintf("%s (%08x)", r.Why, h.Sum32())
}

func wantMarks(t *netstack.Table) []string {
	var marks []string
	for _, c := range t.Chains {
		marks = append(marks, "chain "+c.Name)
		for _, r := range c.Rules {
			marks = append(marks, mark(c, r))
		}
	}
	return marks
}

// tableMarks lists the chains of our table, in the order in which they were made, with
// the marks of their rules.
func tableMarks(conn *nftables.Conn) ([]string, error) {
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	var marks []string
	for _, c := range chains {
		if c.Table.Name != netstack.TableName {
			continue
		}
		marks = append(marks, "chain "+c.Name)
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return nil, fmt.Errorf("list the rules of chain %s: %w", c.Name, err)
		}
		for _, r := range rules {
			comment, _ := userdata.GetString(r.UserData, userdata.TypeComment)
			marks = append(marks, comment)
		}
	}
	return marks, nil
}

func addChain(conn *nftables.Conn, table *nftables.Table, c netstack.Chain) {
	policy := nftables.ChainPolicyAccept
	hook := nftables.ChainHookForward
	if c.Hook == "postrouting" {
		hook = nftables.ChainHookPostrouting
	}
	chain := conn.AddChain(&nftables.Chain{
		Name: c.Name, Table: table, Type: nftables.ChainType(c.Type),
		Hooknum: hook, Priority: nftables.ChainPriorityRef(nftables.ChainPriority(c.Priority)), Policy: &policy,
	})
	for _, r := range c.Rules {
		conn.AddRule(&nftables.Rule{
			Table: table, Chain: chain, Exprs: ruleExprs(r),
			UserData: userdata.AppendString(nil, userdata.TypeComment, mark(c, r)),
		})
	}
}

// ruleExprs compiles a rule to the kernel's register machine.
func ruleExprs(r netstack.Rule) []expr.Any {
	var e []expr.Any
	if r.IPv4 {
		e = append(e, familyIs(unix.NFPROTO_IPV4)...)
	}
	e = append(e, linkIs(expr.MetaKeyIIFNAME, r.In)...)
	e = append(e, linkIs(expr.MetaKeyOIFNAME, r.Out)...)
	e = append(e, prefixIs(r.Source, 12, 8)...)
	e = append(e, prefixIs(r.Destination, 16, 24)...)
	if r.Direct {
		const translated = 1 << 5 // IPS_DST_NAT, linux/netfilter/nf_conntrack_common.h
		e = append(e, &expr.Ct{Key: expr.CtKeySTATUS, Register: 1},
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(translated), Xor: make([]byte, 4)},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: make([]byte, 4)})
	}
	switch r.Verdict {
	case netstack.Masquerade:
		return append(e, &expr.Masq{})
	case netstack.Accept:
		return append(e, &expr.Verdict{Kind: expr.VerdictAccept})
	}
	return append(e, &expr.Verdict{Kind: expr.VerdictDrop})
}

func familyIs(family byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
	}
}

func cmpOp(not bool) expr.CmpOp {
	if not {
		return expr.CmpOpNeq
	}
	return expr.CmpOpEq
}

// linkIs compares a link's name: a wildcard by its first bytes, else all 16 bytes.
func linkIs(key expr.MetaKey, m netstack.LinkMatch) []expr.Any {
	if m.Name == "" {
		return nil
	}
	data, wild := strings.CutSuffix(m.Name, "*")
	if !wild {
		data += strings.Repeat("\x00", unix.IFNAMSIZ-len(data))
	}
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: cmpOp(m.Not), Register: 1, Data: []byte(data)},
	}
}

// prefixIs compares the address at the offset that it has in the header of its family.
func prefixIs(m netstack.PrefixMatch, offset4, offset6 uint32) []expr.Any {
	if !m.Prefix.IsValid() {
		return nil
	}
	family, offset := byte(unix.NFPROTO_IPV6), offset6
	if m.Prefix.Addr().Is4() {
		family, offset = unix.NFPROTO_IPV4, offset4
	}
	size := uint32(m.Prefix.Addr().BitLen() / 8)
	return append(familyIs(family),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: maskBytes(m.Prefix), Xor: bytes.Repeat([]byte{0}, int(size))},
		&expr.Cmp{Op: cmpOp(m.Not), Register: 1, Data: m.Prefix.Masked().Addr().AsSlice()},
	)
}

func maskBytes(p netip.Prefix) []byte { return ipNet(p).Mask }

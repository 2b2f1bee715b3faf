package nft

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
)

const (
	// socketBuffer is what the messages of one transaction and their acknowledgements need.
	socketBuffer = 16 << 20
	// perMessage is how many elements one message holds.
	perMessage = 500
)

// Set is a set or a map, and all that it holds.
type Set struct {
	*nftables.Set
	Elements []nftables.SetElement
}

// Rule is a rule of a chain. It is recognised in the kernel by its comment.
type Rule struct {
	Chain   string
	Comment string
	Exprs   []expr.Any
}

// Content is all of a table. The comment of at least one rule has to tell it from every
// other content, with the hash that [Mirror] gives.
type Content struct {
	Chains []*nftables.Chain
	Sets   []Set
	Rules  []Rule
}

// Compile puts what is wanted into the kernel's words; hash stands for it.
type Compile func(hash string) Content

// Mirror keeps one table of ours as it is wanted. A change replaces the table whole, in one
// transaction, so that no packet meets half of it. Its methods may be called concurrently.
type Mirror struct {
	table Table

	mu     sync.Mutex // guards what follows; held while the kernel is changed
	last   string     // what the kernel was last made or seen to hold, as text
	known  bool       // last is known
	writes int64
}

// NewMirror changes nothing. The namespace is the caller's to keep open.
func NewMirror(t Table) *Mirror { return &Mirror{table: t} }

// Writes counts the transactions made so far.
func (m *Mirror) Writes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// Set makes the table what text describes; none for an empty text. What is in place as far
// as is known costs nothing.
func (m *Mirror) Set(text string, compile Compile) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known && m.last == text {
		return nil
	}
	return m.bring(text, compile)
}

// Sync is Set, but compares with the kernel, which somebody may have changed.
func (m *Mirror) Sync(text string, compile Compile) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bring(text, compile)
}

// Purge removes the table.
func (m *Mirror) Purge() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = false
	return m.replace(nil)
}

func (m *Mirror) bring(text string, compile Compile) error {
	m.known = false
	var want *Content
	if text != "" {
		c := compile(hash(text))
		want = &c
	}
	whole, err := m.holds(want)
	if err != nil {
		return err
	}
	if !whole {
		if err := m.replace(want); err != nil {
			return err
		}
	}
	m.last, m.known = text, true
	return nil
}

// holds reports whether the kernel has the content: the rules, by their comments, no others,
// and the sets, by their sizes.
func (m *Mirror) holds(want *Content) (bool, error) {
	there, err := m.exists()
	if err != nil || !there || want == nil {
		return !there && want == nil, err
	}
	have, err := m.table.Comments()
	if err != nil {
		return false, err
	}
	comments := want.comments()
	for chain, list := range comments {
		if !slices.Equal(have[chain], list) {
			return false, nil
		}
	}
	for _, s := range want.Sets {
		n := 0
		if err := m.table.Elements(s.Name, func(Element) { n++ }); err != nil || n != len(s.Elements) {
			return false, err
		}
	}
	return len(have) == len(comments), nil
}

func (c *Content) comments() map[string][]string {
	list := map[string][]string{}
	for _, r := range c.Rules {
		list[r.Chain] = append(list[r.Chain], r.Comment)
	}
	return list
}

func (m *Mirror) exists() (bool, error) {
	conn, err := m.open()
	if err != nil {
		return false, err
	}
	tables, err := conn.ListTablesOfFamily(m.ours().Family)
	if err != nil {
		return false, fmt.Errorf("list nftables tables: %w", err)
	}
	return slices.ContainsFunc(tables, func(have *nftables.Table) bool { return have.Name == m.table.Name }), nil
}

func (m *Mirror) ours() *nftables.Table {
	return &nftables.Table{Name: m.table.Name, Family: nftables.TableFamily(m.table.Family)}
}

func (m *Mirror) open() (*nftables.Conn, error) { return Open(m.table.Namespace, socketBuffer) }

// Open opens a connection to the nftables of a namespace, with room for so many bytes of
// messages on their way.
func Open(namespace, buffer int) (*nftables.Conn, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(namespace), nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(buffer), c.SetWriteBuffer(buffer))
	}))
	if err != nil {
		return nil, fmt.Errorf("open an nftables socket: %w", err)
	}
	return conn, nil
}

func (m *Mirror) replace(want *Content) error {
	conn, err := m.open()
	if err != nil {
		return err
	}
	conn.AddTable(m.ours()) // what is not there can't be deleted
	conn.DelTable(m.ours())
	if want != nil {
		if err := want.write(conn, m.ours()); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("set nftables table %s: %w", m.table.Name, err)
	}
	m.writes++
	return nil
}

// write adds chains first, since elements and rules may lead to them, and rules last.
func (c *Content) write(conn *nftables.Conn, table *nftables.Table) error {
	conn.AddTable(table)
	for _, chain := range c.Chains {
		conn.AddChain(chain)
	}
	for _, s := range c.Sets {
		if err := conn.AddSet(s.Set, nil); err != nil {
			return fmt.Errorf("make set %s: %w", s.Name, err)
		}
		for part := range slices.Chunk(s.Elements, perMessage) {
			if err := conn.SetAddElements(s.Set, part); err != nil {
				return fmt.Errorf("fill set %s: %w", s.Name, err)
			}
		}
	}
	for _, r := range c.Rules {
		conn.AddRule(&nftables.Rule{
			Table: table, Chain: &nftables.Chain{Name: r.Chain, Table: table}, Exprs: r.Exprs,
			UserData: userdata.AppendString(nil, userdata.TypeComment, r.Comment),
		})
	}
	return nil
}

func hash(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}

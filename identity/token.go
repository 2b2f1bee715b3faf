package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"starling.dev/starling/api"
)

// tokenPrefix names the format and its version.
const tokenPrefix = "st1-"

const (
	maxTokenText    = 2048
	maxTokenAddress = 8
	maxHost         = 253
	checksumSize    = 4
)

var tokenText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Token is what a newcomer is given: which cluster, where its sponsor is, and a
// one-time key. Whoever holds it can join once, so it is a secret until used.
type Token struct {
	Cluster [16]byte // the front of the ClusterID
	Seed    [16]byte // of the one-time key
	// Addresses are the sponsor's, "host:port", an IPv6 host in brackets.
	Addresses []string
}

// NewToken draws a token's one-time key from rnd.
func NewToken(cluster ClusterID, addresses []string, rnd io.Reader) (Token, error) {
	t := Token{Cluster: cluster.Prefix(), Addresses: slices.Clone(addresses)}
	if _, err := io.ReadFull(rnd, t.Seed[:]); err != nil {
		return Token{}, fmt.Errorf("read random bytes for a token: %w", err)
	}
	// What can't be read back must not be given out.
	if _, err := t.encode(); err != nil {
		return Token{}, err
	}
	return t, nil
}

// Key is the one-time key.
func (t Token) Key() ed25519.PrivateKey {
	seed := sha256.Sum256(append([]byte("starling token key\x00"), t.Seed[:]...))
	return ed25519.NewKeyFromSeed(seed[:])
}

// String prints the token as a person passes it on.
func (t Token) String() string {
	payload, err := t.encode()
	if err != nil {
		return "invalid token: " + err.Error()
	}
	return tokenPrefix + tokenText.EncodeToString(append(payload, tokenChecksum(payload)...))
}

// tokenChecksum finds all but one in four billion mistypings.
func tokenChecksum(payload []byte) []byte {
	sum := sha256.Sum256(append([]byte(tokenPrefix), payload...))
	return sum[:checksumSize]
}

// ParseToken reads a token's text. Case, and space around it, don't matter.
func ParseToken(text string) (Token, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	body, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok {
		return Token{}, api.Errorf(api.TokenInvalid, "this is not a token: a token begins with %q; copy the whole of it from `peer invite`", tokenPrefix)
	}
	if len(text) > maxTokenText {
		return Token{}, api.Errorf(api.TokenInvalid, "the token has %d characters, more than the %d a token may have", len(text), maxTokenText)
	}
	raw, err := decodeTokenText(body)
	if err != nil {
		return Token{}, err
	}
	payload, sum := raw[:len(raw)-checksumSize], raw[len(raw)-checksumSize:]
	if !bytes.Equal(sum, tokenChecksum(payload)) {
		return Token{}, api.Errorf(api.TokenInvalid, "the token is mistyped or cut short (its checksum does not match); copy the whole of it again")
	}
	t, err := decodeToken(payload)
	if err != nil {
		return Token{}, api.Errorf(api.TokenInvalid, "the token can't be read (%v); make a new one with `peer invite`", err)
	}
	return t, nil
}

func decodeTokenText(body string) ([]byte, error) {
	raw, err := tokenText.DecodeString(body)
	if at, ok := errors.AsType[base32.CorruptInputError](err); ok && int(at) < len(body) {
		return nil, api.Errorf(api.TokenInvalid, "the token is mistyped: character %d, %q, never occurs in one", len(tokenPrefix)+int(at)+1, body[at])
	}
	// Encoding again finds lengths that no encoder produces, and bits left over.
	if err != nil || len(raw) <= checksumSize || tokenText.EncodeToString(raw) != body {
		return nil, api.Errorf(api.TokenInvalid, "the token is cut short or mistyped at its end; copy the whole of it again")
	}
	return raw, nil
}

func (t Token) encode() ([]byte, error) {
	e := &encoder{}
	e.fixed(t.Cluster[:])
	e.fixed(t.Seed[:])
	if len(t.Addresses) == 0 || len(t.Addresses) > maxTokenAddress {
		return nil, api.Errorf(api.Invalid, "a token holds 1 to %d addresses of its sponsor, not %d", maxTokenAddress, len(t.Addresses))
	}
	e.uint(uint64(len(t.Addresses)))
	for _, address := range t.Addresses {
		if err := e.address(address); err != nil {
			return nil, err
		}
	}
	return e.buf, nil
}

func decodeToken(payload []byte) (Token, error) {
	d := &decoder{rest: payload}
	var t Token
	d.fixed(t.Cluster[:])
	d.fixed(t.Seed[:])
	for range d.count(maxTokenAddress) {
		t.Addresses = append(t.Addresses, d.address())
	}
	if err := d.end(); err != nil {
		return Token{}, err
	}
	if again, err := t.encode(); err != nil || !bytes.Equal(again, payload) {
		return Token{}, errors.New("its addresses are not in their usual form")
	}
	return t, nil
}

// The forms of a host; an address that is a literal takes its 4 or 16 bytes.
const (
	hostIPv4 = 4
	hostIPv6 = 6
	hostName = 0
)

func (e *encoder) address(address string) error {
	host, portText, err := net.SplitHostPort(address)
	port, portErr := strconv.ParseUint(portText, 10, 16)
	if err != nil || portErr != nil || port == 0 || host == "" || len(host) > maxHost {
		return api.Errorf(api.Invalid, "%q is not an address; write HOST:PORT, an IPv6 host in brackets", address)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		e.byte(hostName)
		e.text(host)
	case ip.Zone() != "":
		return api.Errorf(api.Invalid, "%q has a zone, which means nothing on another machine; use an address without one", address)
	case ip.Unmap().Is4():
		e.byte(hostIPv4)
		e.fixed(ip.Unmap().AsSlice())
	default:
		e.byte(hostIPv6)
		e.fixed(ip.AsSlice())
	}
	e.fixed(binary.BigEndian.AppendUint16(nil, uint16(port)))
	return nil
}

func (d *decoder) address() string {
	var host string
	switch d.byte() {
	case hostName:
		host = d.text(maxHost)
	case hostIPv4:
		host = d.ip(4)
	case hostIPv6:
		host = d.ip(16)
	default:
		d.fail("an address has an unknown form")
	}
	var port [2]byte
	d.fixed(port[:])
	return net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port[:]))))
}

func (d *decoder) ip(size int) string {
	ip, _ := netip.AddrFromSlice(d.take(size))
	return ip.String()
}

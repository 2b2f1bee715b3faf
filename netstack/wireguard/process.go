package wireguard

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/ipc"
	"golang.zx2c4.com/wireguard/tun"
)

// process is wireguard-go's device, in this process.
type process struct {
	link   string
	device *device.Device
}

// openProcess makes the device, which goes with the process.
func openProcess(cfg Config, mtu int) (backend, error) {
	link, err := tun.CreateTUN(cfg.Link, mtu)
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("make link %s: another process holds it: %w", cfg.Link, err)
	}
	if err != nil {
		return nil, fmt.Errorf("make link %s: %w", cfg.Link, err)
	}
	d := &Device{cfg: cfg}
	p := &process{cfg.Link, device.NewDevice(link, inSpace{conn.NewDefaultBind(), d}, &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf:   func(format string, args ...any) { cfg.Log.Debug("wireguard-go: " + fmt.Sprintf(format, args...)) },
	})}
	if err := setUpLink(cfg.Link, mtu); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// inSpace opens a device's sockets in the machine's namespace, on whatever thread it does
// so.
type inSpace struct {
	conn.Bind
	d *Device
}

func (b inSpace) Open(port uint16) (fns []conn.ReceiveFunc, actual uint16, err error) {
	err = b.d.within(func() (err error) {
		fns, actual, err = b.Bind.Open(port)
		return err
	})
	return fns, actual, err
}

func (p *process) kind() string { return "process" }

func (p *process) alive() bool {
	select {
	case <-p.device.Wait():
		return false
	default:
		return true
	}
}

func (p *process) close() error {
	p.device.Close() // and the link with it
	return nil
}

func (p *process) remove() error { return p.close() }

func (p *process) configure(private Key, port uint16, changes []change) error {
	if err := p.device.IpcSet(settings(private, port, changes)); err != nil {
		var refused *device.IPCError
		if errors.As(err, &refused) && refused.ErrorCode() == ipc.IpcErrorPortInUse {
			err = errors.Join(err, syscall.EADDRINUSE)
		}
		return fmt.Errorf("configure link %s: %w", p.link, err)
	}
	if err := p.device.Up(); err != nil {
		return fmt.Errorf("start link %s: %w", p.link, err)
	}
	return nil
}

// settings are changes in the words of the configuration protocol.
func settings(private Key, port uint16, changes []change) string {
	var b strings.Builder
	fmt.Fprintf(&b, "private_key=%s\nlisten_port=%d\n", hex.EncodeToString(private[:]), port)
	for _, c := range changes {
		fmt.Fprintf(&b, "public_key=%s\n", hex.EncodeToString(c.Public[:]))
		if c.Remove {
			b.WriteString("remove=true\n")
			continue
		}
		if c.Endpoint.IsValid() {
			fmt.Fprintf(&b, "endpoint=%s\n", c.Endpoint)
		}
		fmt.Fprintf(&b, "persistent_keepalive_interval=%d\nreplace_allowed_ips=true\n", int(keepalive.Seconds()))
		for _, prefix := range c.Prefixes {
			fmt.Fprintf(&b, "allowed_ip=%s\n", prefix)
		}
	}
	return b.String()
}

func (p *process) peers() ([]state, error) {
	text, err := p.device.IpcGet()
	if err != nil {
		return nil, fmt.Errorf("read link %s: %w", p.link, err)
	}
	return parsePeers(text)
}

// parsePeers reads what the configuration protocol tells of a device.
func parsePeers(text string) (list []state, err error) {
	var s *state
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		if key == "public_key" {
			list = append(list, state{})
			s = &list[len(list)-1]
		}
		if s == nil {
			continue // of the device itself
		}
		if err := s.set(key, value); err != nil {
			return nil, fmt.Errorf("read WireGuard's %q: %w", lines.Text(), err)
		}
	}
	return list, nil
}

func (s *state) set(key, value string) (err error) {
	switch key {
	case "public_key":
		var raw []byte
		if raw, err = hex.DecodeString(value); err == nil && len(raw) == len(s.Public) {
			s.Public = Key(raw)
		}
	case "endpoint":
		s.Endpoint, err = netip.ParseAddrPort(value)
	case "last_handshake_time_sec":
		var sec int64
		if sec, err = strconv.ParseInt(value, 10, 64); err == nil && sec > 0 {
			s.Handshake = time.Unix(sec, 0)
		}
	case "rx_bytes":
		s.Received, err = strconv.ParseUint(value, 10, 64)
	case "tx_bytes":
		s.Sent, err = strconv.ParseUint(value, 10, 64)
	}
	return err
}

package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	"starling.dev/starling/daemon"
)

// version is set by the build (-ldflags "-X main.version=…").
var version = "dev"

// daemonFlags are what `up`, `join`, `install` and `leave --purge` have in common.
type daemonFlags struct {
	cfg       daemon.Config
	bind      string
	advertise string
	cpu       string
	memory    string
	logBudget string
	level     string
}

func (f *daemonFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.cfg.Data, "data", daemon.DefaultData, "directory that holds everything this peer keeps")
	fl.StringVar(&f.cfg.Socket, "listen-socket", daemon.DefaultSocket, "Unix socket that commands use")
	fl.StringVar(&f.cfg.Name, "name", "", "the machine's name (default: the host's name)")
	fl.StringVar(&f.bind, "bind", "", "address to listen on (default: all)")
	fl.Uint16Var(&f.cfg.GossipPort, "gossip-port", 0, "UDP and TCP port of membership (default 7946)")
	fl.Uint16Var(&f.cfg.StreamPort, "stream-port", 0, "TCP port of replication and the members' API (default 7947)")
	fl.StringVar(&f.advertise, "advertise", "", "address that the others are told (default: the source address towards them)")
	fl.StringVar(&f.cfg.ContainerdSocket, "containerd", "", "containerd's socket (default: the system's, else one that the peer supervises)")
	fl.StringVar(&f.cfg.Namespace, "scope", "", "containerd namespace and prefix of what is named on the machine (default starling)")
	fl.StringSliceVar(&f.cfg.Registries, "plain-registry", nil, "registry hosts that are spoken to without TLS")
	fl.StringVar(&f.cfg.RegistryAuth, "registry-auth", "", "`FILE` with credentials for registries, in the form that podman login --authfile writes (default auth.json in --data)")
	fl.BoolFunc("wireguard", "send what goes to machines that say so too through WireGuard (remembered; --wireguard=false ends it)", func(s string) error {
		on, err := strconv.ParseBool(s)
		f.cfg.WireGuard = &on
		return err
	})
	fl.StringVar(&f.cpu, "cpu", "", "cores that pods may have (default: all)")
	fl.StringVar(&f.memory, "memory", "", "memory that pods may have (default: all)")
	fl.StringVar(&f.logBudget, "log-budget", "", "size of this machine's own log above which old results of steps are compacted (default 16Mi)")
	fl.StringVar(&f.cfg.MachineID, "machine-id", "", "identity of the computer (default: /etc/machine-id)")
	fl.DurationVar(&f.cfg.ClockOffset, "clock-offset", 0, "added to the machine's clock, to rehearse a wrong one")
	cobra.CheckErr(fl.MarkHidden("clock-offset"))
	fl.StringVar(&f.level, "log", "info", "what to log: debug, info, warn, error")
}

// config checks the flags that need it.
func (f *daemonFlags) config() (daemon.Config, error) {
	cfg := f.cfg
	cfg.Version = version
	var err error
	if f.bind != "" {
		if cfg.Bind, err = netip.ParseAddr(f.bind); err != nil {
			return cfg, fmt.Errorf("--bind %q is no IP address", f.bind)
		}
	}
	if f.advertise != "" {
		if cfg.Advertise, err = netip.ParseAddr(f.advertise); err != nil {
			return cfg, fmt.Errorf("--advertise %q is no IP address", f.advertise)
		}
	}
	if f.cpu != "" {
		if cfg.CPU, err = api.ParseCPU(f.cpu); err != nil {
			return cfg, fmt.Errorf("--cpu: %w", err)
		}
	}
	if f.memory != "" {
		if cfg.Memory, err = api.ParseBytes(f.memory); err != nil {
			return cfg, fmt.Errorf("--memory: %w", err)
		}
	}
	if f.logBudget != "" {
		if cfg.LogBudget, err = api.ParseBytes(f.logBudget); err != nil {
			return cfg, fmt.Errorf("--log-budget: %w", err)
		}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return cfg, fmt.Errorf("--log %q: use debug, info, warn or error", f.level)
	}
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	return cfg, nil
}

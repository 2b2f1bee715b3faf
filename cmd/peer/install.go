package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	"starling.dev/starling/daemon"
	"starling.dev/starling/netstack/linux"
)

// unit is the systemd service. KillMode=process: containers, their shims and a
// supervised containerd outlive the peer.
const unit = `[Unit]
Description=Starling peer
Documentation=https://starling.dev/starling
After=network-online.target containerd.service
Wants=network-online.target

[Service]
Type=exec
ExecStart=%s up%s
Restart=always
RestartSec=1
RestartPreventExitStatus=%d
KillMode=process
TimeoutStopSec=30
LimitNOFILE=1048576
Delegate=yes
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
`

const (
	unitPath    = "/etc/systemd/system/starling.service"
	programPath = "/usr/local/bin/peer"
)

// installCommand makes the peer a systemd service.
func installCommand() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use:   "install [-- FLAGS OF up]",
		Short: "Make the peer a systemd service that starts at boot",
		RunE: func(c *cobra.Command, args []string) error {
			if os.Geteuid() != 0 {
				return api.Errorf(api.NoRoot, "installing a service takes root; run `sudo peer install`")
			}
			if _, err := exec.LookPath("systemctl"); err != nil {
				return fmt.Errorf("this machine has no systemd; start `peer up` from what starts its services: %w", err)
			}
			if data != daemon.DefaultData {
				args = append(args, "--data="+data)
			}
			if err := installProgram(); err != nil {
				return err
			}
			if err := setUpNetworkd(c); err != nil {
				return err
			}
			return installUnit(c, args)
		},
	}
	c.Flags().StringVar(&data, "data", daemon.DefaultData, "directory that holds everything this peer keeps")
	return c
}

// installProgram copies the running program to where the service finds it.
func installProgram() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the peer's own program: %w", err)
	}
	if self == programPath {
		return nil
	}
	raw, err := os.ReadFile(self)
	if err != nil {
		return fmt.Errorf("read the peer's own program: %w", err)
	}
	// A running program can't be written to, but its name can be given to another.
	temp := programPath + ".new"
	if err := os.WriteFile(temp, raw, 0o755); err != nil {
		return fmt.Errorf("copy the program: %w", err)
	}
	return os.Rename(temp, programPath)
}

// setUpNetworkd has systemd-networkd, where it runs, leave the peer's routes alone.
func setUpNetworkd(c *cobra.Command) error {
	restart, err := linux.SetUpNetworkd("/")
	if err != nil || !restart {
		return err
	}
	if out, err := exec.CommandContext(c.Context(), "systemctl", "try-restart", "systemd-networkd.service").CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl try-restart systemd-networkd: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func installUnit(c *cobra.Command, args []string) error {
	flags := ""
	for _, a := range args {
		flags += " " + systemdQuote(a)
	}
	if err := os.MkdirAll(filepath.Dir(unitPath), 0o755); err != nil {
		return fmt.Errorf("make the directory of units: %w", err)
	}
	if err := os.WriteFile(unitPath, fmt.Appendf(nil, unit, programPath, flags, exitRemoved), 0o644); err != nil {
		return fmt.Errorf("write the unit: %w", err)
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", "starling.service"}, {"restart", "starling.service"}} {
		if out, err := exec.CommandContext(c.Context(), "systemctl", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("systemctl %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
		}
	}
	fmt.Fprintln(c.OutOrStdout(), "The service starling runs, and starts at boot. Look at it with `systemctl status starling`.")
	return nil
}

// systemdQuote quotes a word for ExecStart (systemd.service(5), "Command lines").
func systemdQuote(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(s)
	return `"` + s + `"`
}

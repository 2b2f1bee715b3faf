package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apiv1 "starling.dev/starling/api/v1"
)

// startTimeout bounds how long a machine may take to be ready.
const startTimeout = 60 * time.Second

// Up makes the lab: the LAN, the first machine, and the others, which join one by
// one. A lab that exists is brought up as it was.
func (l *Lab) Up(ctx context.Context) error {
	if l.state.Nodes < 1 {
		return errors.New("a lab needs at least one machine; say how many with --nodes")
	}
	l.cfg.Progress("LAN of %d machines", l.state.Nodes)
	if err := l.lan.Up(ctx); err != nil {
		return err
	}
	socket, err := l.cfg.Runtime.Ensure(ctx, filepath.Join(l.dir(), "containerd"))
	if err != nil {
		return err
	}
	l.state.Socket = socket
	if err := l.save(); err != nil {
		return err
	}
	for n := 1; n <= l.state.Nodes; n++ {
		if err := l.bring(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// bring starts machine n; a new one joins through the first.
func (l *Lab) bring(ctx context.Context, n int) error {
	if _, running := l.running(n); running {
		return l.Await(ctx, n)
	}
	args := []string{"up"}
	if n == 1 {
		args = append(args, "--cluster="+l.cfg.Name)
		if l.state.Network != "" {
			args = append(args, "--network="+l.state.Network)
		}
	} else if !l.isMember(n) {
		invite, err := l.Client(1).Invite(ctx, &apiv1.InviteRequest{Note: "lab machine " + Name(n)})
		if err != nil {
			return fmt.Errorf("invite %s: %w", Name(n), err)
		}
		args = []string{"join", "--token=" + invite.GetToken()}
	}
	l.cfg.Progress("%s: peer %s", Name(n), args[0])
	if err := l.spawn(n, args); err != nil {
		return err
	}
	return l.Await(ctx, n)
}

// isMember: the machine's data directory has seen a ready peer before.
func (l *Lab) isMember(n int) bool {
	_, err := os.Stat(filepath.Join(l.nodeDir(n), "member"))
	return err == nil
}

// Await waits until machine n answers and is ready to take pods.
func (l *Lab) Await(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		phase, err := l.phase(ctx, n)
		if phase == "ready" || phase == "drained" {
			return os.WriteFile(filepath.Join(l.nodeDir(n), "member"), nil, 0o600)
		}
		if _, running := l.running(n); !running {
			return fmt.Errorf("%s ended:\n%s", Name(n), l.lastLines(n))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s (phase %q, %w); its log ends:\n%s", Name(n), startTimeout, phase, err, l.lastLines(n))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (l *Lab) phase(ctx context.Context, n int) (string, error) {
	got, err := l.Client(n).Machines(ctx, &apiv1.MachinesRequest{})
	if err != nil {
		return "", err
	}
	for _, m := range got.GetMachines() {
		if m.GetSelf() {
			return m.GetPhase(), nil
		}
	}
	return "", errors.New("it does not know itself yet")
}

// Down removes the lab: processes, containers, networks, files. It works on what is
// there, also on the ruins of a crash.
func (l *Lab) Down(ctx context.Context) error {
	var errs []error
	for n := 1; n <= max(l.state.Nodes, l.highest()); n++ {
		errs = append(errs, l.stop(n))
		if l.state.Socket != "" {
			errs = append(errs, l.cfg.Runtime.Purge(ctx, l.state.Socket, l.Namespace(n)))
		}
	}
	errs = append(errs, l.cfg.Runtime.Stop(ctx, filepath.Join(l.dir(), "containerd")), l.removePodNamespaces(), l.lan.Remove())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove lab %s: %w", l.cfg.Name, err)
	}
	return errors.Join(os.RemoveAll(l.dir()), os.RemoveAll(filepath.Dir(filepath.Dir(l.Socket(1)))))
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"starling.dev/starling/server"
)

// buildServer makes the two doors of the API: the local socket, and the members'.
func (d *Daemon) buildServer(context.Context) error {
	s, err := server.New(d.serverConfig())
	if err != nil {
		return err
	}
	d.add(
		named("local API", func(ctx context.Context) error {
			l, err := listenUnix(ctx, d.cfg.Socket)
			if err != nil {
				return err
			}
			return server.Serve(ctx, l, s.Handler())
		}),
		named("members' API", func(ctx context.Context) error {
			return server.Serve(ctx, d.transport.APIListener(), s.ForMembers().Handler())
		}),
	)
	return nil
}

// listenUnix opens the socket for root alone. One that a dead peer left is replaced;
// the lock on the data directory has shown that it is dead.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the socket's directory: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove an old socket: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for commands: %w", err)
	}
	return l, os.Chmod(path, 0o600)
}

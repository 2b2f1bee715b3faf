package store

import (
	"errors"
	"fmt"
	"log/slog"
)

// Sizes that are fixed by the measurements in docs/adr/0020-badger-tuning.md.
const (
	memTableSize   = 8 << 20
	defaultReserve = 16 << 20
)

// Config says where a store lives.
type Config struct {
	// Dir is the store's own directory; it is made if it does not exist. Required.
	Dir string
	// Logger receives the few lines that an operator should see. Required.
	Logger *slog.Logger
	// MachineID names the machine (/etc/machine-id, say). A directory that was
	// written under another MachineID is refused. Empty: not checked.
	MachineID string
	// Rebind accepts a directory of another machine and binds it to this one: its
	// disk was moved here, and the other machine will not come back.
	Rebind bool
	// ReserveBytes is the size of the reserve file. Default: 16 MiB.
	ReserveBytes int64
}

func (c Config) validate() error {
	if c.Dir == "" {
		return errors.New("store: Dir is required")
	}
	if c.Logger == nil {
		return errors.New("store: Logger is required")
	}
	if c.ReserveBytes < 0 {
		return fmt.Errorf("store: ReserveBytes is %d, must not be negative", c.ReserveBytes)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.ReserveBytes == 0 {
		c.ReserveBytes = defaultReserve
	}
	return c
}

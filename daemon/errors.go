package daemon

import (
	"errors"

	"starling.dev/starling/api"
	"starling.dev/starling/store"
)

// storeError gives what a person can do about a data directory that can't be opened.
func storeError(cfg Config, err error) error {
	switch {
	case errors.Is(err, store.ErrInUse):
		return api.Errorf(api.DataDirInUse, "%s: %w", cfg.Data, err)
	case errors.Is(err, store.ErrCopied):
		return api.Errorf(api.DataDirCopied, "%s: %w", cfg.Data, err)
	case errors.Is(err, store.ErrFormat):
		return api.Errorf(api.DataDirNewer, "%s: %w", cfg.Data, err)
	case errors.Is(err, store.ErrDiskFull):
		return api.Errorf(api.DiskFull, "%s: %w", cfg.Data, err)
	}
	return err
}

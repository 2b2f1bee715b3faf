package gossip

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// debugLogger gives serf and memberlist a logger that ends in ours at debug level: what
// a user should know of, this package says itself.
func debugLogger(to *slog.Logger) *log.Logger {
	return log.New(debugWriter{to}, "", 0)
}

type debugWriter struct{ to *slog.Logger }

// Write takes one line: "[WARN] memberlist: text".
func (w debugWriter) Write(line []byte) (int, error) {
	if w.to.Enabled(context.Background(), slog.LevelDebug) {
		w.to.Debug(string(bytes.TrimSpace(line)))
	}
	return len(line), nil
}

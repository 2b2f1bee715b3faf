package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// formatVersion is the layout that this program reads and writes.
const formatVersion = 1

const formatMagic = "starling store"

// format is the content of the FORMAT file, three lines of text so that a person
// can read it: the magic, the version, and the machine that the directory is bound to.
type format struct {
	version int
	machine string // hashed; empty when bound to none
}

func (f format) marshal() []byte {
	return fmt.Appendf(nil, "%s\nversion: %d\nmachine: %s\n", formatMagic, f.version, f.machine)
}

func parseFormat(data []byte) (format, error) {
	lines := strings.Split(string(data), "\n")
	if len(lines) < 2 || lines[0] != formatMagic {
		return format{}, errors.New("it does not begin with the line " + strconv.Quote(formatMagic))
	}
	text, ok := strings.CutPrefix(lines[1], "version: ")
	version, err := strconv.Atoi(text)
	if !ok || err != nil || version < 1 || strconv.Itoa(version) != text {
		return format{}, fmt.Errorf("its second line %q names no version", lines[1])
	}
	f := format{version: version}
	if version == formatVersion {
		// A newer version may have moved everything below the second line.
		if len(lines) != 4 || !strings.HasPrefix(lines[2], "machine: ") || lines[3] != "" {
			return format{}, fmt.Errorf("its third line does not name the machine")
		}
		f.machine = strings.TrimPrefix(lines[2], "machine: ")
	}
	return f, nil
}

// hashMachine keeps the machine ID itself off the disk: it is meant to stay on
// its machine, while data directories are backed up elsewhere.
func hashMachine(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(formatMagic + "\x00" + id))
	return hex.EncodeToString(sum[:16])
}

// checkFormat reads the directory's format, or makes it if the directory is new, and
// checks that this program and this machine may use it. It changes nothing in a
// directory that it refuses.
func checkFormat(cfg Config) error {
	path := filepath.Join(cfg.Dir, "FORMAT")
	mine := format{version: formatVersion, machine: hashMachine(cfg.MachineID)}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return initFormat(cfg.Dir, path, mine)
	}
	if err != nil {
		return fmt.Errorf("read format: %w", err)
	}
	found, err := parseFormat(data)
	if err != nil {
		return fmt.Errorf("%w: %s is not one of ours (%v); restore it from a backup, or name another directory",
			ErrFormat, path, err)
	}
	if found.version > formatVersion {
		return fmt.Errorf("%w: %s was written by a newer version (format %d, this program knows %d); upgrade this program",
			ErrFormat, cfg.Dir, found.version, formatVersion)
	}
	return checkMachine(cfg, path, found, mine)
}

func checkMachine(cfg Config, path string, found, mine format) error {
	switch {
	case mine.machine == "" || found.machine == mine.machine:
		return nil
	case found.machine == "" || cfg.Rebind:
		return writeFileAtomic(path, mine.marshal())
	}
	return fmt.Errorf("%w: %s was written on a machine with another ID, so it is a copy, or its disk was moved; "+
		"two machines with one key would contradict each other. Remove the directory and join as a new machine, "+
		"or, if the other machine will never start again, bind the directory to this one", ErrCopied, cfg.Dir)
}

// initFormat makes the first file of a new directory. The database comes later,
// so a database without FORMAT was not made by this package.
func initFormat(dir, path string, f format) error {
	if _, err := os.Stat(filepath.Join(dir, "db")); err == nil {
		return fmt.Errorf("%w: %s holds a database but no FORMAT file; restore it from a backup, or name another directory",
			ErrFormat, dir)
	}
	return writeFileAtomic(path, f.marshal())
}

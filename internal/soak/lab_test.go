package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"starling.dev/starling/lab"
)

// labName is the lab's. Two runs at once need two names: STARLING_SOAK gives another.
var labName = cmp.Or(os.Getenv("STARLING_SOAK"), "soak")

const machines = 3

// field is the lab that all tests share.
type field struct {
	program string
	lab     *lab.Lab
}

// shared is made by TestMain; nil where there can be no lab.
var shared *field

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) (code int) {
	if os.Geteuid() != 0 {
		return m.Run() // each test says why it skips
	}
	dir, err := os.MkdirTemp("", "starling-soak-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir)
	f := &field{program: filepath.Join(dir, "peer")}
	build := exec.Command("go", "build", "-o", f.program, "../../cmd/peer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if printed, err := build.CombinedOutput(); err != nil {
		return failed(fmt.Errorf("build the program: %w\n%s", err, printed))
	}
	defer func() {
		if err := f.run("lab", "down", "--name", labName); err != nil {
			code = failed(err)
		}
	}()
	if err := f.up(); err != nil {
		return failed(err)
	}
	shared = f
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "soak:", err)
	return 1
}

func (f *field) up() (err error) {
	if err := f.run("lab", "down", "--name", labName); err != nil {
		return err
	}
	if err := f.run("lab", "up", "--name", labName, "--nodes", strconv.Itoa(machines)); err != nil {
		return err
	}
	f.lab, err = lab.Open(lab.Config{Name: labName, Program: f.program})
	return err
}

// run runs the program; its output matters only if it fails.
func (f *field) run(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	printed, err := exec.CommandContext(ctx, f.program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run peer %q: %w\n%s", args, err, printed)
	}
	return nil
}

// need returns the lab, or skips the test.
func need(t *testing.T) *field {
	t.Helper()
	if shared == nil {
		t.Skip("a lab makes network namespaces: run this as root")
	}
	return shared
}

// rounds is how many rounds a test makes: ROUNDS, or a few.
func rounds(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("ROUNDS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("ROUNDS=%q is no number of rounds", text)
	}
	return n
}

// draws is the random source of a test. Its seed is printed if the test fails.
func draws(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the seed of the draws was %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// until waits for something that has to come true within a minute.
func until(t *testing.T, what string, holds func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within a minute: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// pause lets the writers write for a while.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// whole waits until every machine holds the same state.
func (f *field) whole(t *testing.T) (hash string) {
	t.Helper()
	until(t, "the state is the same on all machines", func() error {
		hashes := map[string]bool{}
		for n := 1; n <= machines; n++ {
			h, err := f.hash(t, n)
			if err != nil {
				return err
			}
			hashes[h], hash = true, h
		}
		if len(hashes) > 1 {
			return errors.New("the hashes differ")
		}
		return nil
	})
	return hash
}

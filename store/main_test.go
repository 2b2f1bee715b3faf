package store

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store/storetest"
)

// The test binary runs itself as another process where a test needs one that can be
// killed, or that may end by itself when Badger meets what it calls impossible.
const (
	envRole = "STARLING_STORE_TEST_ROLE"
	envDir  = "STARLING_STORE_TEST_DIR"
)

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "write":
		exit(writeForever(os.Getenv(envDir)))
	case "measure":
		exit(measure(os.Getenv(envDir)))
	case "verify":
		exit(printContents(os.Getenv(envDir)))
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// writeForever goes on from where the log ends, and prints the head of each commit
// once it is acknowledged. It waits for a line on its input before the next commit
// when the input is open.
func writeForever(dir string) error {
	s, err := Open(testConfig(dir))
	if err != nil {
		return err
	}
	r, err := s.Recover(func(crdt.Batch) error { return nil })
	if err != nil {
		return err
	}
	if !r.Sound() {
		return fmt.Errorf("not sound: %+v", r)
	}
	in := bufio.NewReader(os.Stdin)
	for seq := r.Own.Head.Seq; ; {
		if _, err := in.ReadString('\n'); err != nil {
			return s.Close()
		}
		c := nextCommit(seq)
		if err := s.Commit(c); err != nil {
			return err
		}
		seq = c.HighWater.Head.Seq
		fmt.Println(seq)
	}
}

// nextCommit depends only on the head. Now and then it is too large for one
// transaction.
func nextCommit(head uint64) crdt.Commit {
	a := storetest.Actor(1)
	var c crdt.Commit
	batches := uint64(1 + head%3)
	if head%41 == 40 {
		batches = 40
	}
	for range batches {
		size := 300
		if batches == 40 {
			size = 30_000
		}
		c.Batches = append(c.Batches, storetest.Batch(a, head+1, 1, size))
		head++
	}
	c.Local = []crdt.LocalWrite{{Key: "head", Value: strconv.AppendUint(nil, head, 10)}}
	c.HighWater = storetest.Own(a, head)
	return c
}

// printContents prints one line: whether the store says that it is sound, and a
// hash of all that is in it.
func printContents(dir string) error {
	s, err := Open(testConfig(dir))
	if err != nil {
		return err
	}
	h := sha256.New()
	r, err := s.Recover(func(b crdt.Batch) error {
		_, err := h.Write(b.Encode())
		return err
	})
	if err != nil {
		return err
	}
	local, err := s.Local("")
	if err != nil {
		return err
	}
	for _, l := range local {
		fmt.Fprintf(h, "%s=%x;", l.Key, l.Value)
	}
	fmt.Fprintf(h, "%v", r.Own)
	fmt.Printf("sound=%v %x\n", r.Sound(), h.Sum(nil))
	return s.Close()
}

// rounds is how often a random test runs; the environment may ask for more.
func rounds(t *testing.T, env string, normal int) int {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return normal
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q is not a number", env, text)
	}
	return n
}

// random is seeded by the time, and says with what, so that a failure can be run again.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("STARLING_STORE_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("STARLING_STORE_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func testConfig(dir string) Config {
	return Config{Dir: dir, Logger: slog.New(slog.DiscardHandler), MachineID: "m1", ReserveBytes: 1 << 20}
}

// snapshot copies an open store as the end of its process would leave it. While it
// is copied no commit may run, but Badger may still be turning logs into tables:
// then the copy is a mixture, and is made again.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	for {
		to := filepath.Join(t.TempDir(), "snapshot")
		before := listing(t, dir)
		out, err := copyStore(to, dir)
		if listing(t, dir) == before {
			if err != nil {
				t.Fatalf("copy: %v, %s", err, out)
			}
			return to
		}
	}
}

// listing tells when tables came or went: the manifest grows with each.
func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.Stat(filepath.Join(dir, "db", "MANIFEST"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(entries, manifest.Size())
}

func copyDir(t *testing.T, to, from string) {
	t.Helper()
	if out, err := copyStore(to, from); err != nil {
		t.Fatalf("copy: %v, %s", err, out)
	}
}

// copyStore leaves holes out: most of a log is one.
func copyStore(to, from string) ([]byte, error) {
	return exec.Command("cp", "-a", "--sparse=always", from, to).CombinedOutput()
}

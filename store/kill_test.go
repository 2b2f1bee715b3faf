package store

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"starling.dev/starling/crdt"
)

// writer is another process that commits when told to.
type writer struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	acked uint64
}

func startWriter(t *testing.T, dir string) *writer {
	t.Helper()
	w := &writer{t: t, cmd: exec.Command(os.Args[0])}
	w.cmd.Env = append(os.Environ(), envRole+"=write", envDir+"="+dir)
	w.cmd.Stderr = os.Stderr
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.out = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	return w
}

// order tells the writer to make n commits. A pipe holds far more lines than that.
func (w *writer) order(n int) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, strings.Repeat("\n", n)); err != nil {
		w.t.Fatal(err)
	}
}

// await reads n acknowledgements.
func (w *writer) await(n int) {
	w.t.Helper()
	for range n {
		if !w.next() {
			w.t.Fatal("the writer ended by itself")
		}
	}
}

func (w *writer) next() bool {
	line, err := w.out.ReadString('\n')
	if err != nil {
		return false
	}
	if w.acked, err = strconv.ParseUint(strings.TrimSpace(line), 10, 64); err != nil {
		w.t.Fatal(err)
	}
	return true
}

// kill ends the writer as kill -9 does, and reads what it had still acknowledged.
func (w *writer) kill() {
	w.t.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	for w.next() {
	}
	_ = w.cmd.Wait()
}

// checkAcked opens the store and checks that it holds all up to the acknowledged
// head, whole commits only.
func checkAcked(t *testing.T, dir string, acked uint64) {
	t.Helper()
	s := mustOpen(t, testConfig(dir))
	defer mustClose(t, s)
	next := uint64(1)
	r, err := s.Recover(func(b crdt.Batch) error {
		if b.First != next {
			return fmt.Errorf("entry %d where %d was to come", b.First, next)
		}
		next++
		return nil
	})
	if err != nil || !r.Sound() {
		t.Fatalf("recover: %+v, %v", r, err)
	}
	head := r.Own.Head.Seq
	if head < acked || next-1 != head {
		t.Fatalf("acknowledged %d, own head %d, last entry %d", acked, head, next-1)
	}
	value, err := s.Get("head")
	if err != nil || head > 0 && string(value) != strconv.FormatUint(head, 10) {
		t.Fatalf("local head %q beside own head %d: %v", value, head, err)
	}
}

func TestKilledWriterLosesNothing(t *testing.T) {
	dir, rng := t.TempDir(), random(t)
	for round := range rounds(t, "STARLING_STORE_KILLS", 20) {
		w := startWriter(t, dir)
		n := rng.IntN(80)
		w.order(n + 100)
		w.await(n)
		w.kill()
		checkAcked(t, dir, w.acked)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// TestKilledWhileAFileWasMade opens what a kill leaves between the making of a file's
// name and its first record, for every kind of file that Badger makes.
func TestKilledWhileAFileWasMade(t *testing.T) {
	for _, name := range []string{
		"00002.mem", "00099.mem", "000002.vlog", "000099.vlog", "000099.sst",
		"DISCARD", "MANIFEST-REWRITE", "REWRITE-KEYREGISTRY",
	} {
		for _, size := range []int{0, 2 << 20} { // Badger sizes its logs before it writes to them
			t.Run(fmt.Sprintf("%s of %d bytes", name, size), func(t *testing.T) {
				dir := t.TempDir()
				s := mustOpen(t, testConfig(dir))
				fill(t, s, 1, 5)
				mustClose(t, s)
				if err := os.WriteFile(filepath.Join(dir, "db", name), make([]byte, size), 0o600); err != nil {
					t.Fatal(err)
				}
				for range 2 { // what is opened must not leave what stops the next start
					s := mustOpen(t, testConfig(dir))
					r, all := mustRecover(t, s)
					if len(all) != 5 || !r.Sound() {
						t.Errorf("%d batches of 5: %+v", len(all), r)
					}
					mustClose(t, s)
				}
			})
		}
	}
}

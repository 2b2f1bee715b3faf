package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store/storetest"
)

// BenchmarkCommit makes durable commits, each with one batch of so many changes of
// 300 B: what the peer's loop collects from as many clients.
func BenchmarkCommit(b *testing.B) {
	for _, group := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("changes=%d", group), func(b *testing.B) {
			s := mustOpen(b, testConfig(b.TempDir()))
			a := storetest.Actor(1)
			first := uint64(1)
			for b.Loop() {
				batch := storetest.Batch(a, first, group, 300)
				first += uint64(group)
				mustCommit(b, s, crdt.Commit{
					Batches:   []crdt.Batch{batch},
					Local:     []crdt.LocalWrite{{Key: "clock", Value: []byte("12345678")}},
					HighWater: storetest.Own(a, first-1),
				})
			}
			b.ReportMetric(float64(group*b.N)/b.Elapsed().Seconds(), "changes/s")
		})
	}
}

// BenchmarkOpen opens and reads a store in a process of its own, and reports how
// long that took and how much memory the process then has. STARLING_STORE_OBJECTS
// lists the sizes; an object has 10 batches of 300 B.
func BenchmarkOpen(b *testing.B) {
	sizes := os.Getenv("STARLING_STORE_OBJECTS")
	if sizes == "" {
		sizes = "0,1000"
	}
	for _, text := range strings.Split(sizes, ",") {
		objects, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("STARLING_STORE_OBJECTS: %v", err)
		}
		b.Run("objects="+text, func(b *testing.B) { benchmarkOpen(b, objects) })
	}
}

func benchmarkOpen(b *testing.B, objects int) {
	dir := b.TempDir()
	s := mustOpen(b, testConfig(dir))
	start := time.Now()
	fillObjects(b, s, objects)
	filled := time.Since(start)
	mustClose(b, s)
	b.ResetTimer()
	var m map[string]float64
	for b.Loop() {
		m = measured(b, dir)
	}
	b.StopTimer()
	for unit, value := range m {
		b.ReportMetric(value, unit)
	}
	b.ReportMetric(float64(diskUse(b, dir))/(1<<20), "disk-MiB")
	b.ReportMetric(float64(objects*10)/filled.Seconds(), "filled-batches/s")
}

// fillObjects writes as a busy cluster would: 20 actors in turn, in commits of 200
// batches. The bytes do not compress, as hashes and signatures don't.
func fillObjects(b *testing.B, s *Store, objects int) {
	b.Helper()
	noise := rand.NewChaCha8([32]byte{1})
	var c crdt.Commit
	for i := range objects * 10 {
		batch := storetest.Batch(storetest.Actor(byte(1+i%20)), uint64(1+i/20), 1, 200)
		_, _ = noise.Read(batch.Changes[0]) // never fails
		c.Batches = append(c.Batches, batch)
		if len(c.Batches) == 200 || i == objects*10-1 {
			mustCommit(b, s, c)
			c.Batches = c.Batches[:0]
		}
	}
}

func measured(b *testing.B, dir string) map[string]float64 {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"=measure", envDir+"="+dir)
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("measure: %v", err)
	}
	m := map[string]float64{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		unit, value, _ := strings.Cut(line, " ")
		if m[unit], err = strconv.ParseFloat(value, 64); err != nil {
			b.Fatalf("measure: %q", line)
		}
	}
	return m
}

// measure is the other process: it opens, reads everything, and prints.
func measure(dir string) error {
	start := time.Now()
	s, err := Open(testConfig(dir))
	if err != nil {
		return err
	}
	opened := time.Now()
	if _, err := s.Recover(func(crdt.Batch) error { return nil }); err != nil {
		return err
	}
	read := time.Now()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return err
	}
	debug.FreeOSMemory()
	fmt.Printf("open-ms %f\n", float64(opened.Sub(start).Microseconds())/1000)
	fmt.Printf("recover-ms %f\n", float64(read.Sub(opened).Microseconds())/1000)
	fmt.Printf("cpu-ms %f\n", float64(used.Utime.Nano()+used.Stime.Nano())/1e6)
	for unit, field := range map[string]string{"rss-MiB": "VmRSS", "anon-MiB": "RssAnon", "peak-MiB": "VmHWM"} {
		kib, err := processMemory(field)
		if err != nil {
			return err
		}
		fmt.Printf("%s %f\n", unit, kib/1024)
	}
	return s.Close()
}

func processMemory(field string) (kib float64, err error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(data), "\n") {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			return strconv.ParseFloat(strings.Fields(rest)[0], 64)
		}
	}
	return 0, fmt.Errorf("no %s in /proc/self/status", field)
}

func diskUse(b *testing.B, dir string) int64 {
	b.Helper()
	var total int64
	err := filepath.WalkDir(filepath.Join(dir, "db"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			total += fi.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return total
}

package oci

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLogLineRoundTrip(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("east", 3600))
	line := appendLogLine(nil, at, codeStderr, true, []byte("a b"))
	if want := "2026-03-04T04:06:07.000000008Z e p a b\n"; string(line) != want {
		t.Fatalf("the line is %q, want %q", line, want)
	}
	got, ended, err := parseLogLine(bytes.TrimSuffix(line, []byte("\n")))
	want := LogLine{At: at.UTC(), Stream: Stderr, Text: "a b", Partial: true}
	if err != nil || ended || got != want {
		t.Errorf("it reads as %+v, %v, %v", got, ended, err)
	}
}

// However the output arrives, and whatever it holds, the log has every byte of it in
// order, in lines of bounded length.
func TestOutputIsKeptWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		w, err := newLogWriter(dir, 1, LogLimits{SegmentBytes: 1 << 20, Segments: 4}, time.Now)
		if err != nil {
			rt.Fatal(err)
		}
		var sent []byte
		var chunks [][]byte
		for range rapid.IntRange(1, 5).Draw(rt, "chunks") {
			text := rapid.SampledFrom([]string{"", "\n", "word", "two\nlines\n", strings.Repeat("long", maxLogLine/3)}).Draw(rt, "chunk")
			chunks = append(chunks, []byte(text))
			sent = append(sent, text...)
		}
		copyStream(&chunkReader{chunks}, codeStdout, w)
		w.end()
		list, err := segments(dir)
		if err != nil {
			rt.Fatal(err)
		}
		var got strings.Builder
		_, err = readSegments(t.Context(), dir, list, LogOptions{}, func(l LogLine) error {
			if len(l.Text) > maxLogLine {
				rt.Errorf("a line of %d bytes", len(l.Text))
			}
			got.WriteString(l.Text)
			if !l.Partial {
				got.WriteByte('\n')
			}
			return nil
		})
		if err != nil || strings.TrimSuffix(got.String(), "\n") != strings.TrimSuffix(string(sent), "\n") {
			rt.Errorf("%d bytes became %d, %v", len(sent), got.Len(), err)
		}
	})
}

// chunkReader returns one chunk at a time.
type chunkReader struct{ chunks [][]byte }

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.chunks) > 0 && len(r.chunks[0]) == 0 {
		r.chunks = r.chunks[1:]
	}
	if len(r.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.chunks[0])
	r.chunks[0] = r.chunks[0][n:]
	return n, nil
}

func FuzzParseLogLine(f *testing.F) {
	f.Add([]byte("2026-03-04T04:06:07.000000008Z e p a b"))
	f.Add([]byte("2026-03-04T04:06:07.000000008Z x f "))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, line []byte) {
		l, ended, err := parseLogLine(line)
		if err != nil || ended {
			return
		}
		code := byte(codeStdout)
		if l.Stream == Stderr {
			code = codeStderr
		}
		again := bytes.TrimSuffix(appendLogLine(nil, l.At, code, l.Partial, []byte(l.Text)), []byte("\n"))
		back, _, err := parseLogLine(again)
		if err != nil || back != l {
			t.Errorf("%q reads as %+v, which reads back as %+v, %v", line, l, back, err)
		}
	})
}

func TestSurplus(t *testing.T) {
	limits := LogLimits{SegmentBytes: 100, Segments: 2}
	list := []segment{{1, 1, 90}, {1, 2, 90}, {2, 1, 90}, {3, 1, 10}}
	for _, c := range []struct {
		name string
		list []segment
		mine segment
		want []segment
	}{
		{"within the limits", list[2:], list[3], nil},
		{"the oldest go first", list, list[3], list[:1]},
		{"never one's own", list, list[0], list[1:2]},
		{"never the newest", []segment{{1, 1, 500}}, segment{Run: 2}, nil},
	} {
		if got := surplus(c.list, c.mine, limits); !slices.Equal(got, c.want) {
			t.Errorf("%s: removed %v, want %v", c.name, got, c.want)
		}
	}
	var crashLoop []segment
	for n := range uint64(maxSegmentFiles + 3) {
		crashLoop = append(crashLoop, segment{Run: n + 1, Part: 1, Size: 1})
	}
	if got := surplus(crashLoop, crashLoop[len(crashLoop)-1], limits); !slices.Equal(got, crashLoop[:3]) {
		t.Errorf("of a crash loop's segments %v were removed", got)
	}
}

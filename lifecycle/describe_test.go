package lifecycle

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// example is a lifecycle with one of everything.
func example(t *testing.T) *Graph {
	t.Helper()
	g, err := parseGraph(`
		step home    decides on=executor reads=spec.size feedback=status.refusal writes=status.machine budget=3 loop=scheduler timeout=5s
		step admit   decides requires=home reads=spec.size writes=status.refusal timeout=5s
		step image   acts requires=admit reads=spec.image writes=status.image timeout=10m
		step network acts undo requires=admit writes=status.net claims=nftables:starling timeout=30s
		step app     acts undo requires=image,network reads=status.image,status.nobody after=audit timeout=2m
		step audit   acts requires=home wantedby=app timeout=1m
		target running requires=app
	`, map[string]bool{}, func(Step, Inputs) Outputs { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestProof(t *testing.T) {
	p, err := Verify(example(t))
	if err != nil {
		t.Fatal(err)
	}
	want := `Thing: no cycle. In this order every step stands behind all that it waits for:
  home, admit, audit, image, network, app, running
  Longest chain (at most 12m10s): home -> admit -> image -> app
  Feedback: home reads status.refusal of admit, at most 3 times in one generation, then with backoff.
  Owners, one each:
    status.machine: loop scheduler, step home
    status.refusal: loop admit, step admit
    status.image: loop image, step image
    status.net: loop network, step network
    nftables:starling: loop network
  Note: app reads status.nobody, which nothing writes.
`
	if got := p.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// A resource of the machine has one owner among the loops of all kinds.
func TestVerifyAcrossKinds(t *testing.T) {
	loop := func(kind, name string) Loop {
		s := parseStep("work", nil)
		behave(&s, nil, func(Step, Inputs) Outputs { return nil })
		return Loop{Kind: kind, Name: name, Claims: []string{"nftables:starling"}, Steps: []Step{s}}
	}
	one, err := NewGraph("One", nil, []Loop{loop("One", "net")})
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewGraph("Other", nil, []Loop{loop("Other", "firewall")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(one, other); err == nil || !strings.Contains(err.Error(), `loops "net" and "firewall" both claim "nftables:starling"`) {
		t.Errorf("got %v", err)
	}
	if _, err := Verify(one); err != nil {
		t.Errorf("alone: %v", err)
	}
}

// Every edge points forwards: that is the proof that there is no cycle.
func TestDescribeEdgesPointForwards(t *testing.T) {
	d := example(t).Describe()
	at := map[string]int{}
	for i, n := range d.Nodes {
		at[n.Name] = i
	}
	if len(d.Edges) < 8 {
		t.Fatalf("edges %v", d.Edges)
	}
	for _, e := range d.Edges {
		if at[e.From] >= at[e.To] {
			t.Errorf("%s %s %s, and stands before it", e.To, e.Why, e.From)
		}
	}
	if d.LongestTimeout != 12*time.Minute+10*time.Second {
		t.Errorf("the longest chain takes at most %s", d.LongestTimeout)
	}
}

func TestDrawings(t *testing.T) {
	g := example(t)
	dot := g.Dot()
	for _, want := range []string{`"admit" -> "image" [style=solid]`, `"audit" -> "app" [style=dashed]`, `"admit" -> "home" [style=dotted`, `"running" [shape=ellipse`, `label="home\nscheduler"`} {
		if !strings.Contains(dot, want) {
			t.Errorf("the dot drawing lacks %s:\n%s", want, dot)
		}
	}
	svg := g.SVG()
	boxes, arrows := 0, 0
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the SVG is not XML: %v\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			boxes++
		} else if ok && e.Name.Local == "title" {
			arrows++
		}
	}
	if d := g.Describe(); boxes != len(d.Nodes) || arrows != len(d.Edges)+len(d.Feedback) {
		t.Errorf("%d boxes and %d arrows for %d nodes and %d edges", boxes, arrows, len(d.Nodes), len(d.Edges)+len(d.Feedback))
	}
}

// A step is given what it declares, and nothing else.
func TestUndeclaredReadsAreNotGiven(t *testing.T) {
	g := example(t)
	o := &Object{Fields: map[string]string{"spec.size": "1", "spec.sizes": "2", "spec.image": `"i"`, "spec.secret": `"s"`}, Results: map[string]Result{
		"image": {Phase: PhaseDone, Outputs: Outputs{"status.image": `"d"`, "status.imagery": `"x"`}},
	}}
	r := g.read(o)
	for step, want := range map[string]string{"admit": "spec.size", "image": "spec.image", "app": "status.image", "network": ""} {
		if got := strings.Join(r.fieldsOf(g.index[step].at).Paths(), " "); got != want {
			t.Errorf("%s is given %q, want %q", step, got, want)
		}
	}
}

// Readings that differ have different hashes, also where one text joins like another.
func TestHashTellsReadingsApart(t *testing.T) {
	g := example(t)
	seen := map[[32]byte]string{}
	for _, fields := range []map[string]string{
		{}, {"spec.size": ""}, {"spec.size": "1"}, {"spec.size.a": "1"}, {"spec.size.a": "1", "spec.size.b": ""}, {"spec.size.a": "1spec.size.b"}, {"spec.size": "12"},
	} {
		h := g.ReadsHash(&Object{Fields: fields}, "admit", "a")
		if other, dup := seen[h]; dup {
			t.Errorf("%v and %s have one hash", fields, other)
		}
		seen[h] = fmt.Sprint(fields)
	}
	o := &Object{Fields: map[string]string{"spec.size": "1"}}
	if g.ReadsHash(o, "admit", "a") == g.ReadsHash(o, "admit", "b") || g.ReadsHash(o, "home", "a") != g.ReadsHash(o, "home", "b") {
		t.Error("the place is read by what runs on a machine, and by nothing else")
	}
}

func TestQuotedSegments(t *testing.T) {
	g, err := parseGraph(`step a decides on=executor reads=spec.require.*.x`, map[string]bool{}, func(Step, Inputs) Outputs { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		`spec.require."example.com/a".x`: true, `spec.require."q\"q.x".x.y`: true, `spec.require."example.com/a"`: false, `spec.require.example.com.x`: false,
	} {
		if got := g.reads.readers(path) != 0; got != want {
			t.Errorf("%s is read: %v, want %v", path, got, want)
		}
	}
}

func TestReadersAndWriter(t *testing.T) {
	g := example(t)
	for path, want := range map[string]string{
		"status.refusal": "home by admit admit", "spec.size": "home,admit by  ", "status.image.x": "app by image image", "status.net": " by network network", "spec.other": " by  ",
	} {
		loop, step := g.Writer(path)
		if got := strings.Join(g.Readers(path), ",") + " by " + loop + " " + step; got != want {
			t.Errorf("%s is read by %q, want %q", path, got, want)
		}
	}
}

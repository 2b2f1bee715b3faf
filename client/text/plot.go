package text

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// The measures of a plot in pixels.
const (
	plotLabel  = 190 // the column of names
	plotWidth  = 600 // of the scale
	plotRow    = 24
	plotTop    = 56
	plotRight  = 110
	plotBottom = 16
)

// plot is a drawing with one row for each step, that stands alone.
type plot struct {
	strings.Builder
	rows int
}

func newPlot(title, legend string, rows int) *plot {
	p := &plot{rows: rows}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		plotLabel+plotWidth+plotRight, plotTop+rows*plotRow+plotBottom)
	p.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	p.text(8, 18, `font-weight="bold"`, title)
	p.text(8, 36, `fill="#555"`, legend)
	return p
}

func (p *plot) text(x, y int, style, text string) {
	fmt.Fprintf(p, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, style, html.EscapeString(text))
}

// tick draws a line down the plot, at a place on the scale.
func (p *plot) tick(at float64, label string) {
	x := plotLabel + int(at*plotWidth)
	fmt.Fprintf(p, `<path d="M%d %dV%d" stroke="#ddd"/>`+"\n", x, plotTop, plotTop+p.rows*plotRow)
	p.text(x, plotTop-4, `fill="#888" font-size="11" text-anchor="middle"`, label)
}

// bar draws a stretch of the scale in a row; both ends are from 0 to 1.
func (p *plot) bar(row int, from, to float64, inset int, colour, title string) {
	x := plotLabel + from*plotWidth
	fmt.Fprintf(p, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s</title></rect>`+"\n",
		x, plotTop+row*plotRow+inset, max((to-from)*plotWidth, 1), plotRow-2*inset, colour, html.EscapeString(title))
}

func (p *plot) name(row int, style, name string) {
	p.text(8, plotTop+row*plotRow+plotRow-7, style, name)
}

func (p *plot) note(row int, note string) {
	p.text(plotLabel+plotWidth+8, plotTop+row*plotRow+plotRow-7, `fill="#555" font-size="11"`, note)
}

func (p *plot) end() string { return p.String() + "</svg>\n" }

// The colours of a plot: what waits, what works, and what decided how long all of it took.
const (
	colourWait     = "#d9d9d9"
	colourWork     = "#6b93c4"
	colourWorkLong = "#c3d4e8"
	colourCritical = "#c0504d"
)

// Plot draws an object's last run as a picture: when each step waited and worked, the
// chain that decided how long all of it took in red. fromMs is as in [Style.Analyze].
func Plot(o *apiv1.ObjectState, fromMs int64) string {
	r := newRun(o.GetSteps(), fromMs)
	key := client.KeyOf(o.GetObject().GetKey())
	if len(r.steps) == 0 {
		return newPlot(key.String(), "no step ran", 0).end()
	}
	pole, length := r.pole(), float64(max(r.end-r.begin, 1))
	p := newPlot(fmt.Sprintf("%s took %s; the long pole is %s", key, tookMs(r.end-r.begin), pole.GetStep()),
		"grey: waited; blue: worked; red: worked, on the chain that decided how long all of it took", len(r.steps))
	for i := range 5 {
		p.tick(float64(i)/4, tookMs((r.end-r.begin)*int64(i)/4))
	}
	at := func(ms int64) float64 { return float64(min(max(ms-r.begin, 0), r.end-r.begin)) / length }
	for i, st := range r.steps {
		colour := colourWork
		if r.critical[st.GetStep()] {
			colour = colourCritical
		}
		due := r.due[st.GetStep()]
		p.name(i, "", st.GetStep())
		p.bar(i, at(due), at(st.GetStartedMs()), 8, colourWait, st.GetStep()+" waited "+tookMs(st.GetStartedMs()-due))
		p.bar(i, at(st.GetStartedMs()), at(st.GetFinishedMs()), 5, colour, st.GetStep()+" worked "+tookMs(st.GetFinishedMs()-st.GetStartedMs()))
		p.note(i, tookMs(st.GetFinishedMs()-st.GetStartedMs())+" "+st.GetMachine())
	}
	return p.end()
}

// PlotSteps draws how long each step takes over the cluster: the median in full colour, up
// to the 99th percentile in a light one. The scale is logarithmic, since there are steps of
// a millisecond beside steps of minutes.
func (s Style) PlotSteps(a *apiv1.AnalyzeResponse) string {
	p := newPlot("How long steps take, of the results of the last "+s.age(a.GetFromMs()),
		"blue: worked; grey: waited. Full: the median, up to the 99th percentile in a lighter colour", len(a.GetSteps()))
	longest := 10.0
	for _, st := range a.GetSteps() {
		longest = max(longest, float64(st.GetWorkedP99Ms()), float64(st.GetWaitedP99Ms()))
	}
	decades := math.Ceil(math.Log10(longest))
	at := func(ms int64) float64 { return math.Log10(float64(max(ms, 1))) / decades }
	for i := range int(decades) + 1 {
		p.tick(float64(i)/decades, Took(time.Duration(math.Pow10(i))*time.Millisecond))
	}
	for i, st := range a.GetSteps() {
		name := st.GetKind() + " " + st.GetStep()
		p.name(i, "", name)
		worked := fmt.Sprintf("%s worked %s in the median, %s at the 99th percentile", name, tookMs(st.GetWorkedP50Ms()), tookMs(st.GetWorkedP99Ms()))
		p.bar(i, 0, at(st.GetWorkedP99Ms()), 4, colourWorkLong, worked)
		p.bar(i, 0, at(st.GetWorkedP50Ms()), 4, colourWork, worked)
		waited := fmt.Sprintf("%s waited %s in the median, %s at the 99th percentile", name, tookMs(st.GetWaitedP50Ms()), tookMs(st.GetWaitedP99Ms()))
		p.bar(i, 0, at(st.GetWaitedP99Ms()), 10, colourWait, waited)
		p.bar(i, 0, at(st.GetWaitedP50Ms()), 10, "#888", waited)
		p.note(i, tookMs(st.GetWorkedP50Ms())+" / "+tookMs(st.GetWorkedP99Ms()))
	}
	return p.end()
}

// DotSteps draws which step requires which, and how long each takes over the cluster, for
// Graphviz. The slowest step is drawn thick.
func DotSteps(a *apiv1.AnalyzeResponse) string {
	var b strings.Builder
	b.WriteString("digraph steps {\n  rankdir=RL\n  node [shape=box]\n")
	there := map[string]bool{}
	for _, st := range a.GetSteps() {
		there[st.GetKind()+"/"+st.GetStep()] = true
	}
	for i, st := range a.GetSteps() {
		id, style := st.GetKind()+"/"+st.GetStep(), ""
		if i == 0 {
			style = ", penwidth=2"
		}
		fmt.Fprintf(&b, "  %q [label=\"%s %s\\np50 %s, p99 %s\\n%s runs\"%s]\n", id, st.GetKind(), st.GetStep(),
			tookMs(st.GetWorkedP50Ms()), tookMs(st.GetWorkedP99Ms()), count32(st.GetRuns()), style)
		for _, name := range st.GetRequires() {
			if before := st.GetKind() + "/" + name; there[before] {
				fmt.Fprintf(&b, "  %q -> %q\n", id, before)
			}
		}
	}
	return b.String() + "}\n"
}

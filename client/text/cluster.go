package text

import (
	"fmt"
	"strconv"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// Steps prints how long the steps of all objects took lately, the slowest first.
func (s Style) Steps(a *apiv1.AnalyzeResponse) string {
	if len(a.GetSteps()) == 0 {
		return "no step has finished lately\n"
	}
	rows := [][]string{{"KIND", "STEP", "RUNS", "FAILED", "WAITED p50", "p99", "WORKED p50", "p99", "SLOWEST"}}
	for _, st := range a.GetSteps() {
		rows = append(rows, []string{
			st.GetKind(), st.GetStep(), count32(st.GetRuns()), count32(st.GetFailures()), tookMs(st.GetWaitedP50Ms()), tookMs(st.GetWaitedP99Ms()),
			tookMs(st.GetWorkedP50Ms()), tookMs(st.GetWorkedP99Ms()), fmt.Sprintf("%s on %s", tookMs(st.GetSlowestMs()), st.GetSlowestMachine()),
		})
	}
	pole := a.GetSteps()[0]
	return table(rows) + fmt.Sprintf("\nof the results of the last %s; the long pole is %s of kind %s, with %s in the median\n",
		s.age(a.GetFromMs()), pole.GetStep(), pole.GetKind(), tookMs(pole.GetWorkedP50Ms()))
}

// Churn prints which loops wrote most lately, and about what.
func (s Style) Churn(a *apiv1.AnalyzeResponse) string {
	if len(a.GetLoops()) == 0 {
		return "no loop has written anything lately\n"
	}
	rows := [][]string{{"LOOP", "ENTRIES", "A MINUTE", "OBJECTS", "MOST ABOUT", "ENTRIES", "BUDGET", "HELD BACK"}}
	for _, l := range a.GetLoops() {
		rows = append(rows, []string{
			l.GetLoop(), count32(l.GetEntries()), s.rate(l.GetEntries(), a.GetFromMs()), count32(l.GetObjects()),
			client.KeyOf(l.GetWorst()).String(), count32(l.GetWorstEntries()), count32(l.GetBudget()), count32(l.GetHeld()),
		})
	}
	worst := a.GetLoops()[0]
	return table(rows) + fmt.Sprintf("\nof the results of the last %s; loop %s wrote most, %s of them about %s\n",
		s.age(a.GetFromMs()), worst.GetLoop(), count32(worst.GetWorstEntries()), client.KeyOf(worst.GetWorst()))
}

func count32(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// rate is how many a minute, since a time.
func (s Style) rate(n uint32, fromMs int64) string {
	minutes := float64(s.Now.UnixMilli()-fromMs) / 60_000
	if minutes <= 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(n)/max(minutes, 1), 'f', 1, 64)
}

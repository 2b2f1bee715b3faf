package lifecycle

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever a loop does, and whenever it is asked, it writes no more than its budget and
// what it earned meanwhile.
func TestEntryBudgetHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.IntRange(2, 80).Draw(t, "budget")
		var e Entries
		begin := time.Unix(1000, 0)
		now := begin
		written := 0
		for range rapid.IntRange(1, 300).Draw(t, "attempts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond)
			if now.Before(e.Until(budget)) {
				continue
			}
			for range rapid.IntRange(0, 2).Draw(t, "entries") {
				e, written = e.Note(now), written+1
			}
			if most := budget + int(now.Sub(begin)/EntryEvery); written > most {
				t.Fatalf("%d entries after %s; the budget allows %d", written, now.Sub(begin), most)
			}
		}
	})
}

// A loop that held back goes on at once when it has earned enough.
func TestEntryBudgetIsEarnedAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	var e Entries
	for range 10 {
		e = e.Note(now)
	}
	if until := e.Until(10); until.Sub(now) != 2*EntryEvery {
		t.Errorf("after 10 of 10 entries it waits %s, want the time of the next step's two", until.Sub(now))
	}
	if e.Until(12).After(now) {
		t.Error("with room for two more it waits")
	}
}

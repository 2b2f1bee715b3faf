package daemon

import (
	"context"
	"log/slog"
	"time"

	"starling.dev/starling/store"
)

// scrubAfter is how long after its start a peer reads its whole log, and scrubEvery how
// often from then on: a start from a checkpoint looks at little of it.
const (
	scrubAfter = 10 * time.Minute
	scrubEvery = 7 * 24 * time.Hour
)

// scrubber looks for what rots in the log.
type scrubber struct {
	log *slog.Logger
	// store returns the store as it is now; an error while nothing can be written.
	store func(context.Context) (*store.Store, error)
}

// String names the task.
func (s *scrubber) String() string { return "check of the log" }

// Run checks until the context ends.
func (s *scrubber) Run(ctx context.Context) error {
	for wait := scrubAfter; ; wait = scrubEvery {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
			if st, err := s.store(ctx); err == nil {
				s.check(st)
			}
		}
	}
}

// check has the next start read the whole log if anything is wrong with it: that finds
// out what is missing, and other machines have it.
func (s *scrubber) check(st *store.Store) {
	r, err := st.Check()
	if err == nil && r.Sound() {
		return
	}
	s.log.Warn("the log on disk is not whole; restart this peer, which then fetches what is missing from the other machines",
		"error", err, "damaged", len(r.Damaged), "gaps", len(r.Gaps))
	if err := st.DropCheckpoint(); err != nil {
		s.log.Warn("the checkpoint can't be dropped", "error", err)
	}
}

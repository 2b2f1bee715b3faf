package sim

import (
	"time"

	"starling.dev/starling/peer"
)

// weather is what a seed's world is like: which faults there are, and how often. A
// zero leaves the feature out.
type weather struct {
	realKeys bool // Ed25519 in place of the fast signatures
	wire     bool // messages go through their encoding

	// network
	delay      time.Duration // mean, exponential
	loss       float64
	replay     float64
	clog       time.Duration // mean interval between links that stand still for a while
	partition  time.Duration // mean interval between partitions
	oneWay     bool          // partitions may block one direction only
	hintDelay  time.Duration // the longest that gossip is late with the truth
	suspicion  time.Duration // mean interval between false suspicions
	reconnects time.Duration // mean interval between connections that break

	// machines
	kill     time.Duration // mean interval between ends of the program
	power    time.Duration // mean interval between losses of power
	sync     time.Duration // the longest sync
	full     time.Duration // mean interval between full disks
	wipe     time.Duration // mean interval between wiped disks
	restore  time.Duration // mean interval between disks restored from an older copy
	skew     time.Duration // the greatest skew of a clock
	jump     time.Duration // mean interval between jumps of a clock
	failing  float64       // actions that fail
	hanging  float64       // actions that hang until their timeout
	slow     float64       // actions that take much longer
	tight    bool          // machines have room for few pods
	exit     time.Duration // mean life of a container; 0: for ever
	trespass time.Duration // mean interval between writes by a loop that owns nothing of it

	forge time.Duration // mean interval between entries in another's name

	equivocate time.Duration // mean interval between logs with two histories
	malform    time.Duration // mean interval between messages that mean nothing
	rot        time.Duration // mean interval between logs that lose their end on a disk
	misread    float64       // batches that a disk reads wrongly
	pause      time.Duration // mean interval between peers that stand still
	upgrade    time.Duration // mean interval between machines that get the newer program
	future     time.Duration // mean interval between changes of the next level
	roll       bool          // somebody rolls a deployment
	kinds      bool          // people define kinds, steps and targets of their own
	minority   bool          // a part stays broken after the storm

	// compaction
	retention peer.Retention // small in some worlds
	withdraw  time.Duration  // mean interval between machines that take back what counts
	strip     time.Duration  // mean interval between relays that keep content back

	// people
	edit   time.Duration // mean interval between what people do
	join   time.Duration
	remove time.Duration
	// leased is the share of pods that run under a lease.
	leased float64
}

// drawWeather draws a seed's weather.
func drawWeather(s source, calm bool) weather {
	w := weather{delay: s.between(100*time.Microsecond, 5*time.Millisecond), sync: s.between(100*time.Microsecond, 3*time.Millisecond)}
	w.edit = s.between(300*time.Millisecond, 4*time.Second)
	w.hintDelay = 2 * time.Second
	w.leased = 0.2
	if calm {
		return w
	}
	w.realKeys = s.chance(0.05)
	w.wire = s.chance(0.3)
	w.drawNetwork(s)
	w.drawMachines(s)
	w.join = sometimes(s, 0.4, 10*time.Second, time.Minute)
	w.remove = sometimes(s, 0.3, 20*time.Second, 2*time.Minute)
	w.trespass = sometimes(s, 0.5, time.Second, 20*time.Second)
	w.forge = sometimes(s, 0.3, time.Second, 20*time.Second)
	return w
}

// drawDamage has a stream of its own.
func (w *weather) drawDamage(s source) {
	w.equivocate = sometimes(s, 0.2, 5*time.Second, 30*time.Second)
	w.malform = sometimes(s, 0.3, time.Second, 10*time.Second)
	w.rot = sometimes(s, 0.2, 10*time.Second, 40*time.Second)
	if s.chance(0.2) {
		w.misread = 0.1 * s.Float64()
	}
	w.pause = sometimes(s, 0.3, 3*time.Second, 30*time.Second)
	w.upgrade = sometimes(s, 0.2, 2*time.Second, 10*time.Second)
	w.future = sometimes(s, 0.6, time.Second, 10*time.Second)
	w.minority = s.chance(0.3)
}

// drawCompaction has a stream of its own.
func (w *weather) drawCompaction(s source) {
	if s.chance(0.4) {
		w.retention = peer.Retention{Budget: 1 << 10, Keep: s.between(100*time.Millisecond, 5*time.Second), Every: s.between(200*time.Millisecond, 5*time.Second)}
		w.withdraw = sometimes(s, 0.2, 5*time.Second, 30*time.Second)
	}
	w.strip = sometimes(s, 0.3, time.Second, 20*time.Second)
	w.retention.Hold = s.between(200*time.Millisecond, 8*time.Second)
	if w.retention.Budget == 0 { // what loops made is collected whatever the size of the log
		w.retention.Every = s.between(200*time.Millisecond, 5*time.Second)
	}
}

func (w *weather) drawNetwork(s source) {
	if s.chance(0.3) {
		w.delay = s.between(5*time.Millisecond, 100*time.Millisecond)
	}
	if s.chance(0.6) {
		w.loss = 0.3 * s.Float64()
	}
	if s.chance(0.6) {
		w.replay = 0.2 * s.Float64()
	}
	w.clog = sometimes(s, 0.5, time.Second, 20*time.Second)
	w.partition = sometimes(s, 0.6, 3*time.Second, 30*time.Second)
	w.oneWay = s.chance(0.5)
	w.hintDelay = s.between(time.Second, 8*time.Second)
	w.suspicion = sometimes(s, 0.5, time.Second, 20*time.Second)
	w.reconnects = sometimes(s, 0.5, time.Second, 20*time.Second)
}

func (w *weather) drawMachines(s source) {
	w.kill = sometimes(s, 0.6, 3*time.Second, 30*time.Second)
	w.power = sometimes(s, 0.6, 5*time.Second, 40*time.Second)
	if s.chance(0.4) {
		w.sync = s.between(3*time.Millisecond, 60*time.Millisecond)
	}
	w.full = sometimes(s, 0.4, 10*time.Second, 40*time.Second)
	w.wipe = sometimes(s, 0.3, 20*time.Second, time.Minute)
	w.restore = sometimes(s, 0.4, 10*time.Second, time.Minute)
	if s.chance(0.5) {
		w.skew = s.between(10*time.Millisecond, 5*time.Second)
	}
	w.jump = sometimes(s, 0.3, 5*time.Second, time.Minute)
	if s.chance(0.5) {
		w.failing = 0.3 * s.Float64()
	}
	if s.chance(0.4) {
		w.hanging = 0.05 * s.Float64()
	}
	if s.chance(0.5) {
		w.slow = 0.3 * s.Float64()
	}
	w.exit = sometimes(s, 0.5, 5*time.Second, time.Minute)
	w.tight = s.chance(0.2)
}

// sometimes draws a mean interval with probability p, else 0: never.
func sometimes(s source, p float64, from, to time.Duration) time.Duration {
	mean := s.between(from, to)
	if !s.chance(p) {
		return 0
	}
	return mean
}

package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"starling.dev/starling/loops"
)

// Labels on containerd containers. They are a format: a newer peer adopts what an
// older one labelled.
const (
	labelPod        = "starling.dev/pod"        // the pod's ID
	labelNamespace  = "starling.dev/namespace"  // the pod's namespace
	labelPodName    = "starling.dev/name"       // the pod's name
	labelContainer  = "starling.dev/container"  // the container's name in the pod
	labelGeneration = "starling.dev/generation" // decimal, from 1
	labelSpec       = "starling.dev/spec"       // specHash
	labelDigest     = "starling.dev/digest"     // the image's digest
	labelRestarts   = "starling.dev/restarts"   // decimal
	labelStop       = "starling.dev/stop"       // JSON of stopLabel
	labelGiven      = "starling.dev/given"      // JSON of givenLabel
	labelStarted    = "starling.dev/started"    // RFC 3339, set once it runs
	labelStopping   = "starling.dev/stopping"   // set before we end it
	labelExit       = "starling.dev/exit"       // JSON of exitLabel, set once settled
)

// phase is what a generation's task is doing.
type phase int

const (
	phaseNone    phase = iota // no task: never made, settled, or lost with the machine
	phaseCreated              // made, its program not yet executed
	phaseRunning
	phaseStopped // ended, not settled yet
)

// record is one generation of one container, as containerd holds it.
type record struct {
	ID           string
	PodID        string
	PodNamespace string
	PodName      string
	Container    string
	Generation   uint64
	SpecHash     string
	Digest       string
	Restarts     uint32
	Stop         loops.StopSpec
	Given        givenLabel
	Started      time.Time // zero: never started, as far as was written down
	Stopping     bool
	Exit         *exitLabel

	Phase phase
	PID   uint32
	// Stale: it runs in a network namespace that is no longer the pod's.
	Stale bool
}

// exitLabel is a settled exit.
type exitLabel struct {
	Code uint32    `json:"code"`
	OOM  bool      `json:"oom,omitempty"`
	At   time.Time `json:"at"`
}

// stopLabel keeps how to stop a container for a peer that no longer knows its spec.
type stopLabel struct {
	Signal string `json:"signal"`
	Grace  string `json:"grace"`
}

// givenLabel keeps what the container was given of the machine; 0 is no limit.
type givenLabel struct {
	CPU    int64 `json:"cpu,omitempty"`    // thousandths of a core
	Memory int64 `json:"memory,omitempty"` // bytes
}

// labels writes down what a later peer must know of the record. Marshalling these
// plain structs can't fail.
func (r record) labels() map[string]string {
	stop, _ := json.Marshal(stopLabel{r.Stop.Signal, r.Stop.Grace.String()})
	given, _ := json.Marshal(r.Given)
	return map[string]string{
		labelPod:        r.PodID,
		labelNamespace:  r.PodNamespace,
		labelPodName:    r.PodName,
		labelContainer:  r.Container,
		labelGeneration: strconv.FormatUint(r.Generation, 10),
		labelSpec:       r.SpecHash,
		labelDigest:     r.Digest,
		labelRestarts:   strconv.FormatUint(uint64(r.Restarts), 10),
		labelStop:       string(stop),
		labelGiven:      string(given),
	}
}

// parseRecord reads a container's labels; ok is false if it is not one of ours.
func parseRecord(id string, labels map[string]string) (r record, ok bool) {
	generation, err := strconv.ParseUint(labels[labelGeneration], 10, 64)
	if err != nil || labels[labelPod] == "" || labels[labelContainer] == "" {
		return record{}, false
	}
	restarts, _ := strconv.ParseUint(labels[labelRestarts], 10, 32)
	r = record{
		ID:           id,
		PodID:        labels[labelPod],
		PodNamespace: labels[labelNamespace],
		PodName:      labels[labelPodName],
		Container:    labels[labelContainer],
		Generation:   generation,
		SpecHash:     labels[labelSpec],
		Digest:       labels[labelDigest],
		Restarts:     uint32(restarts),
		Stopping:     labels[labelStopping] != "",
	}
	var stop stopLabel
	if json.Unmarshal([]byte(labels[labelStop]), &stop) == nil {
		r.Stop.Signal = stop.Signal
		r.Stop.Grace, _ = time.ParseDuration(stop.Grace)
	}
	_ = json.Unmarshal([]byte(labels[labelGiven]), &r.Given) // an older peer did not write it
	r.Started, _ = time.Parse(time.RFC3339Nano, labels[labelStarted])
	var exit exitLabel
	if json.Unmarshal([]byte(labels[labelExit]), &exit) == nil {
		r.Exit = &exit
	}
	return r, true
}

// cgroup is the path of the generation's cgroup. Each has its own, since a successor
// is made while its predecessor runs. The top is the peer's namespace, so that two
// peers of a lab that hold one pod for a moment don't meet.
func (r record) cgroup(namespace string) string {
	return fmt.Sprintf("%s/%s/%d", podCgroup(namespace, r.PodID), r.Container, r.Generation)
}

// podCgroup is the path of the cgroup that holds all of a pod's.
func podCgroup(namespace, podID string) string { return "/" + namespace + "/" + podID }

// containerID names a generation in containerd: short enough for its limit of 76
// bytes, and for a person to read.
func containerID(podID, container string, generation uint64) string {
	const longest = 40
	if len(container) > longest {
		sum := sha256.Sum256([]byte(container))
		container = container[:longest-9] + "-" + hex.EncodeToString(sum[:4])
	}
	return fmt.Sprintf("%s-%s-%d", shortID(podID), container, generation)
}

// shortID is the part of a pod's ID that is shown and used in names.
func shortID(podID string) string { return podID[:min(12, len(podID))] }

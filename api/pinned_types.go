package api

// Pinned is a PinnedDeployment as loops read it; see [Pod].
type Pinned struct {
	Spec      PinnedSpec
	Lifecycle Lifecycle
	Status    PinnedStatus
}

// PinnedSpec is what is wanted of a PinnedDeployment.
type PinnedSpec struct {
	Replicas    int64
	Scaling     string // the loop that says how many; empty: Replicas does
	PercentNext int64
	Rounding    string
	Surge       int64
	Unavailable int64
	Paused      bool
	Next        PodSpec
	Previous    PodSpec // zero: there is only the next one
}

// PinnedStatus is what is, as the loop wrote it.
type PinnedStatus struct {
	Replicas  int64
	Ready     int64
	Next      int64
	Templates []TemplateState // sorted by name
	Slots     []SlotState     // sorted by name, as strings are
}

// TemplateState is one template's identity.
type TemplateState struct {
	Name string // next | previous
	Rev  int64
	Hash string
}

// SlotState is one pod of a PinnedDeployment.
type SlotState struct {
	Name    string // the slot's number
	Pod     string
	Wanted  int64 // rev
	Running int64 // rev; 0: none yet
	Ready   bool
}

// DecodePinned reads a PinnedDeployment's fields, as DecodePod reads a pod's.
func DecodePinned(f Fields) (Pinned, error) {
	r := newReader(f)
	pinned := Pinned{
		Spec: PinnedSpec{
			Replicas:    r.int("spec.replicas"),
			Scaling:     r.str("spec.scaling"),
			PercentNext: r.int("spec.percentNext"),
			Rounding:    r.str("spec.rounding"),
			Surge:       r.int("spec.surge"),
			Unavailable: r.int("spec.unavailable"),
			Paused:      r.bool("spec.paused"),
			Next:        r.podSpec("spec." + TemplateNext),
			Previous:    r.podSpec("spec." + TemplatePrevious),
		},
		Lifecycle: r.lifecycle(),
		Status:    PinnedStatus{Replicas: r.int("status.replicas"), Ready: r.int("status.ready"), Next: r.int("status.next")},
	}
	for _, name := range r.x.keys("status.templates") {
		at := Child("status.templates", name)
		pinned.Status.Templates = append(pinned.Status.Templates, TemplateState{name, r.int(at + ".rev"), r.str(at + ".hash")})
	}
	for _, name := range r.x.keys("status.slots") {
		at := Child("status.slots", name)
		pinned.Status.Slots = append(pinned.Status.Slots, SlotState{
			Name: name, Pod: r.str(at + ".pod"), Wanted: r.int(at + ".wanted"), Running: r.int(at + ".running"), Ready: r.bool(at + ".ready"),
		})
	}
	return pinned, r.err
}

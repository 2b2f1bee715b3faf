package api

import "time"

// HookedStep is a Step as loops read it; see [Pod].
type HookedStep struct {
	Spec      HookedSpec
	Lifecycle Lifecycle
	Status    HookedStatus
}

// HookedSpec is a foreign loop's step, as its Step declares it.
type HookedSpec struct {
	Kind, Loop, Step     string
	After, Before        []string
	Wants, WantedBy      []string
	Requires, RequiredBy []string
	Reads, Consults      []string
	Outputs, Claims      []string
	Children             string
	Timeout, Every       time.Duration
	Entries              int64
	Authors              Authors
	Undo                 bool
	Where                string
	Existing             string
}

// HookedStatus is what is, as the loops wrote it.
type HookedStatus struct{ Fits bool }

// DecodeStep reads a Step's fields, as DecodePod reads a pod's.
func DecodeStep(f Fields) (HookedStep, error) {
	r := newReader(f)
	s := HookedStep{
		Spec: HookedSpec{
			Kind: r.str("spec.kind"), Loop: r.str("spec.loop"), Step: r.str("spec.step"),
			After: r.strings("spec.after"), Before: r.strings("spec.before"),
			Wants: r.strings("spec.wants"), WantedBy: r.strings("spec.wantedBy"),
			Requires: r.strings("spec.requires"), RequiredBy: r.strings("spec.requiredBy"),
			Reads: r.strings("spec.reads"), Consults: r.strings("spec.consults"), Children: r.str("spec.children"), Outputs: r.strings("spec.outputs"), Claims: r.strings("spec.claims"),
			Timeout: r.duration("spec.timeout"), Every: r.duration("spec.every"), Undo: r.bool("spec.undo"),
			Entries: r.int("spec.entries"), Authors: Authors{By: r.strings("spec.by"), NotBy: r.strings("spec.notBy")},
			Where: r.str("spec.where"), Existing: r.str("spec.existing"),
		},
		Lifecycle: r.lifecycle(),
		Status:    HookedStatus{Fits: r.bool("status.fits")},
	}
	return s, r.err
}

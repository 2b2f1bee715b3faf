package daemon

import (
	"reflect"

	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/netstack/service"
)

// compare finds what is other than in the last view. An object that changed is another
// object, so pointers tell.
func (f *follower) compare(now view, pods podChanges) service.Change {
	c := service.Change{Synced: now.synced}
	for _, p := range pods.entries {
		if old, ok := f.directory.Pod(p.Key); !ok || !reflect.DeepEqual(old, p) {
			c.Pods = append(c.Pods, p)
		}
	}
	for _, k := range pods.gone {
		if _, known := f.directory.Pod(k); known {
			c.GonePods = append(c.GonePods, k)
		}
	}
	for _, o := range changed(f.seen.services, now.services) {
		c.Services = append(c.Services, loops.ServiceEntry(o))
	}
	for _, o := range gone(f.seen.services, now.services) {
		c.GoneServices = append(c.GoneServices, nameOf(o))
	}
	for _, o := range now.machines {
		m := loops.MachineEntry(o, now.silent[o.Key.Name])
		if old, ok := f.directory.Machine(m.Name); !ok || old != m {
			c.Machines = append(c.Machines, m)
		}
	}
	for _, o := range gone(f.seen.machines, now.machines) {
		c.GoneMachines = append(c.GoneMachines, o.Key.Name)
	}
	return c
}

func nameOf(o *lifecycle.Object) service.Key {
	return service.Key{Namespace: o.Key.Namespace, Name: o.Key.Name}
}

// changed lists the objects that were not there before, as they are. Both slices are
// sorted by key.
func changed(before, after []*lifecycle.Object) []*lifecycle.Object {
	if same(before, after) {
		return nil
	}
	var list []*lifecycle.Object
	walk(before, after, func(b, a *lifecycle.Object) {
		if a != nil && a != b {
			list = append(list, a)
		}
	})
	return list
}

// gone lists the objects whose keys are no longer there.
func gone(before, after []*lifecycle.Object) []*lifecycle.Object {
	if same(before, after) {
		return nil
	}
	var list []*lifecycle.Object
	walk(before, after, func(b, a *lifecycle.Object) {
		if a == nil {
			list = append(list, b)
		}
	})
	return list
}

// same: the core returns one slice for as long as nothing of a kind changes.
func same(a, b []*lifecycle.Object) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// walk goes through two sorted slices at once; one of the two is nil for a key that the
// other slice alone has.
func walk(before, after []*lifecycle.Object, visit func(b, a *lifecycle.Object)) {
	for len(before)+len(after) > 0 {
		switch {
		case len(before) == 0 || len(after) > 0 && after[0].Key.Compare(before[0].Key) < 0:
			visit(nil, after[0])
			after = after[1:]
		case len(after) == 0 || before[0].Key.Compare(after[0].Key) < 0:
			visit(before[0], nil)
			before = before[1:]
		default:
			visit(before[0], after[0])
			before, after = before[1:], after[1:]
		}
	}
}

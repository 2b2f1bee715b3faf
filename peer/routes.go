package peer

import (
	"net/netip"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// routed is what the machines' routes depend on: a machine's address, prefixes and tunnel, and
// the home of a pod whose address is not of its machine's prefix. It is empty for
// the many pods that need no route of their own.
func (e *engine) routed(o *lifecycle.Object) [4]string {
	if o == nil {
		return [4]string{}
	}
	address, _ := o.Field("status.address")
	if o.Key.Kind == "Machine" {
		prefix, _ := o.Field("status.prefix")
		lan, _ := o.Field("status.lan")
		return [4]string{address, prefix, lan, loops.TunnelOf(o)}
	}
	machine, a, ok := loops.Home(o)
	if !ok || e.atHome(machine, a) {
		return [4]string{}
	}
	return [4]string{address, machine, "moved"}
}

// reroute notes that the machines' routes are others now: those of a pod that left its
// machine's prefix or came back to it, or of a machine, whose pods may all have.
func (e *engine) reroute(t *tracked, now [4]string) {
	if t.ref.Kind == "Machine" {
		for ref, pod := range e.objects {
			if ref.Kind == "Pod" && !pod.unseen {
				e.noteRouted(pod, e.routed(pod.snap()))
			}
		}
	}
	e.noteRouted(t, now)
	e.routesChanged()
}

func (e *engine) noteRouted(t *tracked, now [4]string) {
	if delete(e.moved, t.ref); now != [4]string{} {
		e.moved[t.ref] = now
	}
}

// routes are those to each machine, and as fields those to all but one; both nil if they have
// to be computed anew.
type routes struct {
	of  map[string]string
	but map[string]api.Fields
}

// routesChanged has this machine look at its routes again.
func (e *engine) routesChanged() {
	e.routes = routes{}
	e.mark(e.selfRef())
}

// movedPods are the pods that may need a route of their own.
func (e *engine) movedPods() []*lifecycle.Object {
	var pods []*lifecycle.Object
	for ref := range e.moved { // sorted later, by address
		if t := e.objects[ref]; ref.Kind == "Pod" && t.life != 0 && !t.gone {
			pods = append(pods, t.snap())
		}
	}
	return pods
}

// atHome reports whether the address is of the machine's prefix.
func (e *engine) atHome(machine string, a netip.Addr) bool {
	t := e.objects[crdt.Ref{Kind: "Machine", Name: machine}]
	if t == nil || t.snap() == nil {
		return true
	}
	return loops.IsAtHome(t.snap(), a)
}

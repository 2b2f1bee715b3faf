package loops

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// HostPort is a port of the machine that leads to a port of a pod.
type HostPort struct {
	Name      string
	Host, Pod uint16
}

// HostPorts are those that a pod's spec asks for, sorted by their numbers on the host.
func HostPorts(f api.Fields) (list []HostPort) {
	if !mentions(f, ".hostPorts.") {
		return nil
	}
	for _, name := range f.Keys("spec.containers") {
		at := api.Child("spec.containers", name)
		for _, port := range f.Keys(at + ".hostPorts") {
			list = append(list, HostPort{
				Name: port, Host: uint16(f.Int(api.Child(at+".hostPorts", port))), Pod: uint16(f.Int(api.Child(at+".ports", port))),
			})
		}
	}
	slices.SortFunc(list, func(a, b HostPort) int { return cmp.Compare(a.Host, b.Host) })
	return list
}

func hostNumbers(f api.Fields) (list []uint16) {
	for _, p := range HostPorts(f) {
		list = append(list, p.Host)
	}
	return list
}

// portHolders says, for each port that a pod wants and somebody has on a machine, who: a
// program that listens there, or the pod that it is reserved for. Pods are looked through
// only if there is such a one.
func portHolders(v lifecycle.View, machine string, pod api.Key, want []uint16, reserved map[uint16]int, listening api.Fields) map[uint16]string {
	holders := map[uint16]string{}
	reservedAny := false
	for _, port := range want {
		if by := listening.String(strconv.Itoa(int(port))); by != "" {
			holders[port] = portInUse(port, by)
		} else if reserved[port] > 0 {
			holders[port], reservedAny = portTaken(port, "another pod"), true
		}
	}
	if !reservedAny {
		return holders
	}
	for _, o := range v.Objects("Pod") {
		if o.Key == pod || o.Status().String("status.machine") != machine {
			continue
		}
		for _, p := range HostPorts(o.Fields) {
			if holders[p.Host] == portTaken(p.Host, "another pod") {
				holders[p.Host] = portTaken(p.Host, o.Key.String())
			}
		}
	}
	return holders
}

func portTaken(port uint16, by string) string {
	return fmt.Sprintf("host port %d is taken by %s", port, by)
}

const inUse = "is in use on the host by"

func portInUse(port uint16, by string) string {
	return fmt.Sprintf("port %d %s %s", port, inUse, by)
}

// portFreed reports whether a machine refused a pod for a program that has ended since. What
// the machine refuses for, it has written into its object before, so that an object which does
// not show the program is of after the refusal.
func portFreed(v lifecycle.View, machine, reason string, want []uint16) bool {
	if !strings.Contains(reason, inUse) {
		return false
	}
	for _, o := range v.Objects("Machine") {
		if o.Key.Name == machine {
			return len(listening(o, want)) == 0
		}
	}
	return false
}

// deriveListening adds the programs that listen on ports which the pod wants of its
// machine.
func deriveListening(o, machine *lifecycle.Object, fields api.Fields) {
	for port, by := range listening(machine, hostNumbers(o.Fields)) {
		fields[api.Child("machine.listening", port)] = by
	}
}

// listening are the programs that listen on these ports of a machine, by port.
func listening(machine *lifecycle.Object, ports []uint16) api.Fields {
	var by api.Fields
	for _, port := range ports {
		number := strconv.Itoa(int(port))
		if program, ok := machine.Field(api.Child("status.listening", number)); ok {
			if by == nil {
				by = api.Fields{}
			}
			by[number] = program
		}
	}
	return by
}

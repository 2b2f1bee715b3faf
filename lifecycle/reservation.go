package lifecycle

import "maps"

// Reservation is an amount of a machine. It is never changed once made.
type Reservation struct {
	CPU    int64 // thousandths of a core
	Memory int64 // bytes
	// Ports counts, for each port of the host, how often it is reserved; nil for none.
	Ports map[uint16]int `json:",omitempty"`
}

// Add returns the sum.
func (r Reservation) Add(o Reservation) Reservation {
	return Reservation{r.CPU + o.CPU, r.Memory + o.Memory, tally(r.Ports, o.Ports, 1)}
}

// Sub returns the difference.
func (r Reservation) Sub(o Reservation) Reservation {
	return Reservation{r.CPU - o.CPU, r.Memory - o.Memory, tally(r.Ports, o.Ports, -1)}
}

// Most returns the greater of the two in everything.
func (r Reservation) Most(o Reservation) Reservation {
	most := Reservation{max(r.CPU, o.CPU), max(r.Memory, o.Memory), maps.Clone(r.Ports)}
	for port, n := range o.Ports {
		if most.Ports == nil {
			most.Ports = map[uint16]int{}
		}
		most.Ports[port] = max(most.Ports[port], n)
	}
	return most
}

// Covers reports whether it is at least the other in everything.
func (r Reservation) Covers(o Reservation) bool {
	for port, n := range o.Ports {
		if r.Ports[port] < n {
			return false
		}
	}
	return r.CPU >= o.CPU && r.Memory >= o.Memory
}

// Equal reports whether both are the same amounts.
func (r Reservation) Equal(o Reservation) bool {
	return r.CPU == o.CPU && r.Memory == o.Memory && maps.Equal(r.Ports, o.Ports)
}

// tally adds one count of ports to another, so many times. What comes to nothing is left
// out.
func tally(a, b map[uint16]int, times int) map[uint16]int {
	if len(b) == 0 {
		return a
	}
	sum := maps.Clone(a)
	if sum == nil {
		sum = map[uint16]int{}
	}
	for port, n := range b {
		if sum[port] += times * n; sum[port] == 0 {
			delete(sum, port)
		}
	}
	if len(sum) == 0 {
		return nil
	}
	return sum
}

package server

import (
	"fmt"
	"strings"

	"starling.dev/starling/api"
)

// makeRoom says what to do for a pod that no machine takes, by the reasons of the machines:
// what is nearest comes first.
func makeRoom(status api.Fields) string {
	var drained, silent []string
	program, port, short, label := false, false, false, false
	for _, machine := range status.Keys("status.refused") {
		switch reason := status.String(api.Join("status", "refused", machine)); {
		case strings.Contains(reason, "drained"):
			drained = append(drained, machine)
		case strings.Contains(reason, "silent"):
			silent = append(silent, machine)
		case strings.Contains(reason, "in use on the host"):
			program, port = true, true
		case strings.Contains(reason, "host port"):
			port = true
		case strings.Contains(reason, "(needs "):
			label = true
		default:
			short = true
		}
	}
	var ways []string
	for _, machine := range drained {
		ways = append(ways, fmt.Sprintf("bring %s back with `peer machine resume %s`", machine, machine))
	}
	if len(silent) > 0 {
		ways = append(ways, "look after "+strings.Join(silent, " and "))
	}
	if program {
		ways = append(ways, "stop the program that has the port")
	}
	if port {
		ways = append(ways, "choose another host port")
	}
	if short {
		ways = append(ways, "ask for less", "free some capacity")
	}
	if label {
		ways = append(ways, "label another machine with `peer machine label`")
	}
	ways = append(ways, "add a machine")
	all := strings.Join(ways[:len(ways)-1], ", ")
	if len(ways) > 2 {
		all += ","
	}
	if all != "" {
		all += " or "
	}
	all += ways[len(ways)-1] + "."
	return strings.ToUpper(all[:1]) + all[1:]
}

package server

import (
	"fmt"
	"slices"

	"starling.dev/starling/api"
	"starling.dev/starling/peer"
)

// failedExit finds a container of a pod that ended with a code other than 0 and is not started
// again.
func failedExit(s peer.Seen) (container string, code int64) {
	if s.Object.Key.Kind != "Pod" {
		return "", 0
	}
	status := s.Object.Status()
	for _, name := range status.Keys("status.containers") {
		if code := status.Int(api.Child("status.containers", name) + ".exit"); code != 0 {
			return name, code
		}
	}
	return "", 0
}

// ended tells of a pod that is where it is to be how its containers have ended: with what code,
// if one has failed and is not started again, or how often they were started again.
func ended(s peer.Seen) (sentence, fix string) {
	key, status := s.Object.Key, s.Object.Status()
	if key.Kind != "Pod" {
		return "", ""
	}
	if name, code := failedExit(s); code != 0 {
		return fmt.Sprintf("; container %s ended with code %d, and is not started again", name, code),
			fmt.Sprintf("`peer logs %s -c %s` shows what it wrote, and `peer restart %s` runs it again.", key, name, key)
	}
	names := status.Keys("status.containers")
	slices.SortStableFunc(names, func(a, b string) int { return int(restarts(status, b) - restarts(status, a)) })
	if len(names) == 0 || restarts(status, names[0]) == 0 {
		return "", ""
	}
	name := names[0]
	sentence = fmt.Sprintf("; container %s has ended by itself and was started again", name)
	if n := restarts(status, name); n > 1 {
		sentence += fmt.Sprintf(" %d times", n)
	}
	if at := status.Time(api.Child("status.containers", name) + ".started"); !at.IsZero() {
		sentence += fmt.Sprintf(", %s ago", ago(at))
	}
	return sentence, fmt.Sprintf("`peer logs %s -c %s --previous` shows what it wrote before.", key, name)
}

func restarts(status api.Fields, container string) int64 {
	return status.Int(api.Child("status.containers", container) + ".restarts")
}

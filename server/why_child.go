package server

import (
	"fmt"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// causeLink is one link of the chain from a goal to its cause, with its object.
type causeLink struct {
	lifecycle.Link
	of peer.Seen
}

// maxDepth bounds how many objects a chain leads through.
const maxDepth = 8

// chainOf is the causal chain of an object. Where a step waits for one of its children,
// it goes on there: the cause is what a person can act on.
func chainOf(c *peer.Core, seen peer.Seen) (chain []causeLink) {
	for range maxDepth {
		links := seen.Graph.Explain(&seen.Eval)
		if len(links) == 0 {
			return chain
		}
		for i, l := range links {
			if i == 0 && len(chain) > 0 {
				l.Why = relation(chain[len(chain)-1])
			}
			chain = append(chain, causeLink{l, seen})
		}
		child, err := nextOf(seen, links[len(links)-1])
		if err != nil || child == seen.Object.Key || child.Kind == "Machine" {
			return chain
		}
		next, ok := c.See(child)
		if !ok {
			return chain
		}
		seen = next
	}
	return chain
}

// nextOf is the object that the last link of a chain waits for: a child, or one that is
// required.
func nextOf(seen peer.Seen, last lifecycle.Link) (api.Key, error) {
	if last.Code == api.ObjectNotUp {
		return api.KeyFromString(seen.WaitsFor())
	}
	return api.KeyFromString(last.For)
}

func relation(to causeLink) string {
	if to.Code == api.ObjectNotUp {
		return "requires"
	}
	return "child"
}

// causeOf says in one sentence what holds an object up, and what to do about it; of a
// child's trouble it tells as the child would.
func causeOf(c *peer.Core, seen peer.Seen, chain []causeLink) (sentence, fix string) {
	last := chain[len(chain)-1]
	sentence, fix = cause(c, last.of, last.StepState)
	if last.of.Object.Key == seen.Object.Key {
		return sentence, fix
	}
	own := ""
	for _, l := range chain {
		if l.of.Object.Key == seen.Object.Key && l.Message != "" {
			own = ": " + l.Message
		}
	}
	return fmt.Sprintf("%s%s; %s", seen.Object.Key, own, sentence), fix
}

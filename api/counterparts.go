package api

import (
	"slices"
	"strings"
)

// counterpart is what kinds of other systems, and short words for kinds, are here.
type counterpart struct {
	words   string // in small letters; a plural's s may be left out
	kind    string // the kind that does the same here, or
	instead string // what there is instead of a kind
}

var counterparts = []counterpart{
	{words: "po", kind: "Pod"},
	{words: "node no host", kind: "Machine"},
	{words: "deployment deploy replicaset rs", kind: "PinnedDeployment"},
	{words: "svc", kind: "Service"},
	{words: "ingress ingresses ing httproute", kind: "Site"},
	{words: "networkpolicy networkpolicies netpol", kind: "Allow"},
	{words: "customresourcedefinition crd", kind: "Kind"},
	{words: "ipaddresspool", kind: "Pool"},
	{words: "namespace ns", instead: "a namespace is no object: it is there as soon as an object names it, as in pod/shop/web"},
	{words: "secret", instead: "there are no secrets yet"},
	{words: "configmap cm", instead: "settings stand in the pod, in spec.containers.*.env"},
	{words: "job", instead: "a job is a pod with restart: on-failure, or never"},
	{words: "cronjob cj", instead: "a loop of your own can make pods at given times (docs/guide/custom-kind.md)"},
	{words: "daemonset ds", instead: "write a pod for each machine, with spec.require; nothing makes them by itself yet"},
	{words: "statefulset sts", instead: "write a pod for each member, with a name and volumes of its own"},
	{words: "persistentvolumeclaim pvc persistentvolume pv volume", instead: "volumes stand in the pod, in spec.volumes"},
	{words: "horizontalpodautoscaler hpa", instead: "spec.scaling of a PinnedDeployment hands the number of pods over to a loop"},
	{words: "event", instead: "what happened is told by `peer events` and `peer history`"},
	{words: "image", instead: "images are listed by `peer image ls`"},
}

// Counterpart finds the kind that does here what a kind of another system, or a short word,
// stands for. For one that has none it tells what there is instead. A word that is none of
// these gives nothing.
func (c *Catalog) Counterpart(word string) (k Kind, ok bool, instead string) {
	word = strings.ToLower(word)
	for _, p := range counterparts {
		words := strings.Fields(p.words)
		if !slices.Contains(words, word) && !slices.Contains(words, strings.TrimSuffix(word, "s")) {
			continue
		}
		k, ok = c.KindByName(p.kind)
		return k, ok, p.instead
	}
	return Kind{}, false, ""
}

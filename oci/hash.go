package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"starling.dev/starling/loops"
)

// hashed lists what makes a container another one: if any of it changes, the
// container is replaced. What takes effect without that is not here: the restart
// policy, how to stop, the ports, and the content of hosts and resolv.conf.
//
// Invariant: a field added later is omitted when empty, so that an upgraded peer
// finds the hashes of running containers unchanged and adopts them.
type hashed struct {
	NetNS    string            `json:"netns,omitempty"`
	Hostname string            `json:"hostname,omitempty"`
	Rerun    string            `json:"rerun,omitempty"`
	Image    string            `json:"image,omitempty"` // digest, else reference
	Command  []string          `json:"command,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	WorkDir  string            `json:"workdir,omitempty"`
	User     string            `json:"user,omitempty"`
	CPU      int64             `json:"cpu,omitempty"`
	Memory   int64             `json:"memory,omitempty"`
	Mounts   []hashedMount     `json:"mounts,omitempty"`
	Runtime  string            `json:"runtime,omitempty"`
}

type hashedMount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readonly,omitempty"`
}

// specHash is the identity of a container's spec within its pod.
func specHash(pod loops.PodSandbox, spec loops.ContainerSpec) string {
	h := hashed{
		NetNS: pod.NetNS, Hostname: pod.Hostname, Rerun: pod.Rerun,
		Image: spec.Digest, Command: spec.Command, Args: spec.Args, Env: spec.Env,
		WorkDir: spec.WorkDir, User: spec.User, CPU: spec.CPU, Memory: spec.Memory,
		Runtime: spec.Runtime,
	}
	if h.Image == "" {
		h.Image = spec.Image
	}
	for _, m := range spec.Mounts {
		h.Mounts = append(h.Mounts, hashedMount(m))
	}
	text, err := json.Marshal(h)
	if err != nil {
		panic("strings, numbers and maps of strings marshal: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

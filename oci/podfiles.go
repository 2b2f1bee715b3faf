package oci

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"starling.dev/starling/loops"
)

func (r *Runtime) podsDir() string { return filepath.Join(r.cfg.StateDir, "pods") }

func (r *Runtime) podDir(podID string) string { return filepath.Join(r.podsDir(), podID) }

func (r *Runtime) logDir(podID, container string) string {
	return filepath.Join(r.podDir(podID), "logs", container)
}

// etcFiles are the files of a pod that are mounted into its containers' /etc. What the
// pod does not say is what the machine itself would use.
func etcFiles(pod loops.PodSandbox) map[string]string {
	return map[string]string{
		"hostname":    pod.Hostname + "\n",
		"hosts":       cmp.Or(pod.Hosts, localHosts),
		"resolv.conf": cmp.Or(pod.Resolv, machineResolv()),
	}
}

const localHosts = "127.0.0.1 localhost\n::1 localhost\n"

// machineResolv is the machine's own resolv.conf. Where systemd-resolved answers on a
// loopback address, which no pod reaches, it is the file that names the servers behind
// it. Without any it is empty.
func machineResolv() string {
	for _, path := range []string{"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"} {
		if text, err := os.ReadFile(path); err == nil {
			return string(text)
		}
	}
	return ""
}

// writePodFiles brings the pod's files up to date. A file is written in place, never
// replaced: containers have the file itself mounted, and see the new content.
func (r *Runtime) writePodFiles(pod loops.PodSandbox) error {
	dir := filepath.Join(r.podDir(pod.ID), "etc")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the pod's directory: %w", err)
	}
	for name, content := range etcFiles(pod) {
		path := filepath.Join(dir, name)
		old, err := os.ReadFile(path)
		if err == nil && bytes.Equal(old, []byte(content)) {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the pod's /etc/%s: %w", name, err)
		}
	}
	return nil
}

// etcMounts binds the pod's files into a container, but for those that the container
// brings itself.
func (r *Runtime) etcMounts(pod loops.PodSandbox, own []loops.Mount) []specs.Mount {
	taken := map[string]bool{"/etc": false}
	for _, m := range own {
		taken[filepath.Clean(m.Target)] = true
	}
	var mounts []specs.Mount
	for _, name := range []string{"hostname", "hosts", "resolv.conf"} {
		target := "/etc/" + name
		if taken[target] || taken["/etc"] {
			continue
		}
		mounts = append(mounts, bind(filepath.Join(r.podDir(pod.ID), "etc", name), target, false))
	}
	return mounts
}

func bind(source, target string, readOnly bool) specs.Mount {
	options := []string{"rbind", "rprivate", "rw"}
	if readOnly {
		options[2] = "ro"
	}
	return specs.Mount{Type: "bind", Source: source, Destination: target, Options: options}
}

// removePodFiles removes the pod's directory with its logs.
func (r *Runtime) removePodFiles(podID string) error {
	if err := os.RemoveAll(r.podDir(podID)); err != nil {
		return fmt.Errorf("remove the pod's directory: %w", err)
	}
	return nil
}

// podDirs lists the IDs of the pods that have a directory.
func (r *Runtime) podDirs() ([]string, error) {
	entries, err := os.ReadDir(r.podsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the pods' directories: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

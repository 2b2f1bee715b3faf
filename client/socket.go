package client

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// DefaultSocket is where a peer of this machine listens for commands.
const DefaultSocket = "/run/starling/peer.sock"

// LabDir holds the running labs: a directory for each, with one for each machine.
const LabDir = "/run/starling/lab"

// DefaultLab is the lab that a machine's bare number belongs to.
const DefaultLab = "lab"

// SocketEnv is the environment variable that names a socket.
const SocketEnv = "PEER_SOCKET"

// Selection is how a person says which peer is meant. The zero value means the peer of
// this machine.
type Selection struct {
	Socket string // --socket
	Lab    string // --lab: "2", or "NAME/2" for a lab with a name
	Env    string // the value of SocketEnv
}

// Path returns the socket that is meant: a flag wins over the environment.
func (s Selection) Path() (string, error) {
	switch {
	case s.Socket != "" && s.Lab != "":
		return "", errors.New("--socket and --lab name two peers; give one of them")
	case s.Socket != "":
		return s.Socket, nil
	case s.Lab != "":
		return labPath(s.Lab)
	case s.Env != "":
		return s.Env, nil
	}
	return DefaultSocket, nil
}

func labPath(machine string) (string, error) {
	lab, number, named := strings.Cut(machine, "/")
	if !named {
		lab, number = DefaultLab, machine
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || lab == "" || strings.ContainsAny(lab, `/.`) {
		return "", fmt.Errorf("--lab %s: name a machine of the lab by its number, as in --lab 2, or --lab NAME/2", machine)
	}
	return LabSocket(lab, n), nil
}

// labOf is the lab, and the number of its machine, that a socket is of.
func labOf(socket string) (lab, machine string, ok bool) {
	rest, below := strings.CutPrefix(socket, LabDir+"/")
	rest, peer := strings.CutSuffix(rest, "/peer.sock")
	lab, machine, two := strings.Cut(rest, "/")
	return lab, machine, below && peer && two
}

// LabSocket is the socket of one machine of a lab. Machines count from 1.
func LabSocket(lab string, machine int) string {
	return filepath.Join(LabDir, lab, strconv.Itoa(machine), "peer.sock")
}

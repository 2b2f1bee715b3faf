package services_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux/linuxtest"
	"starling.dev/starling/netstack/linux/services"
	"starling.dev/starling/netstack/service"
)

const patience = linuxtest.Patience

func check(t testing.TB, err error) {
	t.Helper()
	linuxtest.Check(t, err)
}

// world is a machine with pods and a table of services.
type world struct {
	*linuxtest.World
	prefix netip.Prefix // of services
	table  *services.Table
}

func newWorld(t testing.TB, pods int) *world {
	w := &world{World: linuxtest.New(t, pods)}
	w.prefix = netstack.ServicePrefix(w.Cluster)
	w.open()
	return w
}

// open makes a Table, as a peer that starts does.
func (w *world) open() {
	table, err := services.New(services.Config{
		Machine: w.Machine, Prefix: w.prefix, Source: netstack.MachineAddress(w.Own),
	})
	check(w.T, err)
	w.T.Cleanup(func() { check(w.T, table.Close()) })
	w.table = table
}

// service is one with the given pods behind it, at port 80.
func (w *world) service(n uint64, pods ...int) service.Service {
	s := service.Service{Spec: service.Spec{
		Key:     service.Key{Namespace: "default", Name: fmt.Sprintf("s%d", n)},
		Ports:   []service.Port{{Name: "http", Protocol: "tcp", Port: 80}},
		Address: netstack.RandomAddress(w.prefix, func() uint64 { return n }),
	}}
	for _, i := range pods {
		s.Endpoints = append(s.Endpoints, service.Endpoint{Pod: w.Pods[i].Name, Address: w.Pods[i].Address, Ports: []uint16{8080}})
	}
	return s
}

func (w *world) sync(list ...service.Service) {
	w.T.Helper()
	var forwards []service.Forward
	for _, s := range list {
		forwards = append(forwards, s.Forwards()...)
	}
	check(w.T, w.table.Sync(w.T.Context(), forwards, w.Addresses()))
}

func (w *world) ruleset() string { return w.Ruleset(services.TableName) }

func dial(to netip.AddrPort) (net.Conn, error) { return net.DialTimeout("tcp", to.String(), patience) }

package services

import (
	"errors"
	"fmt"
	"net/netip"

	"starling.dev/starling/netstack"
)

// TableName is the name of the table, of family ip6.
const TableName = "starling-services"

// Config says which machine the table is for.
type Config struct {
	// Machine is the path of the network namespace to work in; the process's own if
	// empty.
	Machine string
	// Prefix is what services have their addresses from (netstack.ServicePrefix). Required.
	Prefix netip.Prefix
	// Source is the machine's own address, from which a pod that reaches itself through
	// a service is spoken to. Required.
	Source netip.Addr
}

func (c Config) validate() error {
	switch {
	case c.Prefix.Bits() != netstack.ServiceBits || !c.Prefix.Addr().Is6():
		return fmt.Errorf("prefix of services %v: it must be an IPv6 /%d", c.Prefix, netstack.ServiceBits)
	case !c.Source.Is6():
		return errors.New("the machine's own address is missing")
	}
	return nil
}

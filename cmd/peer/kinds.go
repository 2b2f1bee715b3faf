package main

import (
	"context"
	"strings"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// catalog returns the tables of all kinds that the peer knows. It is asked for only where
// the built-in kinds do not do.
func (c *cli) catalog(ctx context.Context) (*api.Catalog, error) {
	if c.kinds != nil {
		return c.kinds, nil
	}
	p, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	c.kinds, err = p.Catalog(ctx)
	return c.kinds, err
}

// known is the catalog, or where there is no peer to ask, that of the built-in kinds.
func (c *cli) known(ctx context.Context) *api.Catalog {
	if all, err := c.catalog(ctx); err == nil {
		return all
	}
	return api.Builtin()
}

// kind finds a kind by its name or plural.
func (c *cli) kind(ctx context.Context, word string) (api.Kind, bool) {
	if k, ok := api.KindByName(word); ok || api.OwnKind(word) == "" {
		return k, ok
	}
	all, err := c.catalog(ctx)
	if err != nil {
		return api.Kind{}, false
	}
	return all.KindByName(word)
}

// parseKey reads the key of an object of any kind. Words of other systems for our kinds do.
func (c *cli) parseKey(ctx context.Context, s string) (api.Key, error) {
	key, err := api.ParseKey(s)
	if err == nil {
		return key, nil
	}
	all := c.known(ctx)
	word, rest, _ := strings.Cut(s, "/")
	if _, known := all.KindByName(word); known {
		return all.ParseKey(s)
	}
	if k, ok, _ := all.Counterpart(word); ok {
		return all.ParseKey(k.Name + "/" + rest)
	}
	return all.ParseKey(s)
}

// knowing learns the kinds of objects that are to be shown.
func (c *cli) knowing(ctx context.Context, list []*apiv1.Object) {
	for _, o := range list {
		if _, builtin := api.KindByName(o.GetKey().GetKind()); !builtin {
			_, _ = c.catalog(ctx) // without it, the list shows what all kinds have
			return
		}
	}
}

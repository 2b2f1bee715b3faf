package client

import (
	"context"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// Catalog returns the tables of all kinds that the peer knows: the built-in ones, those
// that people defined, and the targets that they declared.
func (c *Client) Catalog(ctx context.Context) (*api.Catalog, error) {
	got, err := c.Get(ctx, &apiv1.GetRequest{Kind: "Kind"})
	if err != nil {
		return nil, AsError(err)
	}
	var own []api.Kind
	for _, o := range got.GetObjects() {
		if o.GetKey().GetKind() != "Kind" {
			continue
		}
		if k, ok := api.DefineKind(o.GetKey().GetName(), o.GetFields()); ok {
			own = append(own, k)
		}
	}
	all := api.Builtin().With(own...)
	got, err = c.Get(ctx, &apiv1.GetRequest{Kind: "Target"})
	if err != nil {
		return nil, AsError(err)
	}
	for _, o := range got.GetObjects() {
		if o.GetKey().GetKind() == "Target" {
			all = all.WithTarget(o.GetKey().GetName(), o.GetFields())
		}
	}
	return all, nil
}

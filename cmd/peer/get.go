package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
	"starling.dev/starling/client/text"
)

func getCommand(c *cli) *cobra.Command {
	var namespace, output, at string
	var labels []string
	var follow bool
	var authors api.Authors
	cmd := &cobra.Command{
		Use: "get [KIND|OBJ]", Short: "List and print objects",
		Example:           "  peer get pods -o wide\n  peer get web -o yaml\n  peer get web --at 3\n  peer get pods -w --not-by 'loop:*'",
		Args:              objectArgs(0, 2),
		ValidArgsFunction: c.completeGet,
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := c.getRequest(cmd.Context(), args, namespace)
			if err != nil {
				return err
			}
			if !follow && !authors.Any() {
				return errors.New("--by and --not-by select the changes that -w shows; for earlier ones there is `peer history`")
			}
			if follow {
				return c.follow(cmd.Context(), req, authors, output)
			}
			if req.At = at; at != "" {
				if req.GetName() == "" {
					return fmt.Errorf("--at shows one object as it was; name it: peer get OBJ --at REV")
				}
				if output == "" {
					output = "yaml" // a list would only say that there is one
				}
			}
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			got, err := p.Get(cmd.Context(), req)
			if client.Is(err, api.NotFound) && len(args) == 1 {
				got, err = c.getCounterpart(cmd.Context(), p, req, args[0], err)
			}
			if err != nil {
				return err
			}
			if got.Objects, err = labelled(got.GetObjects(), labels); err != nil {
				return err
			}
			c.knowing(cmd.Context(), got.GetObjects())
			return c.printObjects(got, output, req.GetName() != "")
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only this namespace")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, yaml, wide or name")
	cmd.Flags().StringVar(&at, "at", "", "as of a `REV`, or of a time as in 2006-01-02T15:04:05Z")
	cmd.Flags().StringSliceVarP(&labels, "label", "l", nil, "only objects with this label, `KEY=VALUE`; may be repeated")
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "show what there is, then go on with each change")
	byAuthors(cmd, &authors)
	cmd.MarkFlagsMutuallyExclusive("watch", "at")
	cmd.MarkFlagsMutuallyExclusive("watch", "label")
	return cmd
}

// labelled keeps the objects that have all the labels.
func labelled(list []*apiv1.Object, labels []string) ([]*apiv1.Object, error) {
	for _, l := range labels {
		key, value, ok := strings.Cut(l, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--label %q: write KEY=VALUE", l)
		}
		path := api.Join("spec", "labels", key)
		list = slices.DeleteFunc(list, func(o *apiv1.Object) bool {
			have, ok := o.GetFields()[path]
			return !ok || have != api.Str(value)
		})
	}
	return list, nil
}

// getRequest reads nothing, KIND, OBJ, or KIND NAME.
func (c *cli) getRequest(ctx context.Context, args []string, namespace string) (*apiv1.GetRequest, error) {
	req := &apiv1.GetRequest{Namespace: namespace}
	if len(args) == 0 || len(args) == 1 && args[0] == "all" { // what habit types
		return req, nil
	}
	key, err := c.someObjects(ctx, args)
	if err != nil {
		return nil, err
	}
	if name, rev, asked := strings.Cut(key.GetName(), "@"); asked {
		return nil, fmt.Errorf("write --at for an object as it was: peer get %s --at %s", client.KeyOf(&apiv1.Key{Kind: key.GetKind(), Namespace: key.GetNamespace(), Name: name}), rev)
	}
	req.Kind, req.Name = key.GetKind(), key.GetName()
	if namespace == "" {
		req.Namespace = key.GetNamespace()
	}
	return req, nil
}

// getCounterpart lists the kind that a word of another system stands for, where no pod is
// called so.
func (c *cli) getCounterpart(ctx context.Context, p *client.Client, req *apiv1.GetRequest, word string, none error) (*apiv1.GetResponse, error) {
	all := c.known(ctx)
	k, ok, instead := all.Counterpart(word)
	switch {
	case ok:
		req.Kind, req.Name = k.Name, ""
		if !k.Namespaced {
			req.Namespace = ""
		}
		return p.Get(ctx, req)
	case instead != "":
		return nil, errors.New(all.Unknown(word))
	}
	return nil, none
}

func (c *cli) printObjects(got *apiv1.GetResponse, output string, one bool) error {
	if err := oneOf("-o", output, "", "wide", "name", "yaml", "json"); err != nil {
		return err
	}
	list := got.GetObjects()
	var err error
	shown := ""
	switch output {
	case "json":
		if one && len(list) == 1 {
			shown, err = text.ObjectJSON(list[0])
		} else {
			shown, err = text.ObjectsJSON(list)
		}
	case "yaml":
		shown = text.ObjectsYAML(list)
	case "name":
		for _, o := range list {
			shown += client.KeyOf(o.GetKey()).String() + "\n"
		}
	default:
		if len(list) == 0 {
			c.say("there are no such objects")
		}
		shown = c.style().Objects(list, output == "wide")
	}
	c.print(shown)
	c.view(got.GetView())
	return err
}

// getOne returns one object as it is now.
func (c *cli) getOne(ctx context.Context, key *apiv1.Key) (*apiv1.Object, error) {
	p, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	got, err := p.Get(ctx, &apiv1.GetRequest{Kind: key.GetKind(), Namespace: key.GetNamespace(), Name: key.GetName()})
	if err != nil {
		return nil, err
	}
	if len(got.GetObjects()) != 1 {
		return nil, api.Errorf(api.NotFound, "%s does not exist; list what does with `peer get`", client.KeyOf(key))
	}
	return got.GetObjects()[0], nil
}

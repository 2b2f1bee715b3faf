package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// appContainer is the container of a pod that `peer run` makes.
const appContainer = "app"

// podFlags are the fields of a pod that `peer run` has flags for.
type podFlags struct {
	image, namespace, cpu, memory, restart, note string
	ports, env, require                          []string
}

func runCommand(c *cli) *cobra.Command {
	var f podFlags
	cmd := &cobra.Command{
		Use: "run NAME --image IMAGE [-- ARGS]", Short: "Make a pod of one container",
		Example:           "  peer run web --image localhost/hello:1 --port http=8080 --memory 64Mi -- --listen '[::]:8080'",
		Args:              runArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			fields, err := f.fields(args[1:])
			if err != nil {
				return err
			}
			key := api.Key{Kind: "Pod", Namespace: cmp.Or(f.namespace, api.DefaultNamespace), Name: args[0]}
			return c.change(cmd.Context(), f.note, &apiv1.Edit{
				Kind: apiv1.EditKind_EDIT_KIND_APPLY, Key: client.KeyTo(key), Fields: fields, MustNotExist: true,
			})
		},
	}
	f.register(cmd)
	return cmd
}

func runArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if len(args) == 0 || dash == 0 {
		return errors.New("give the pod a name: peer run NAME --image IMAGE")
	}
	if dash != 1 && len(args) > 1 {
		return fmt.Errorf("%q: put -- before the container's arguments", args[1])
	}
	return nil
}

func (f *podFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.image, "image", "", "the image, with a tag or a digest (required)")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "the pod's namespace")
	flags.StringVar(&f.cpu, "cpu", "", "cores that are reserved, and the most that it gets: 500m, 2")
	flags.StringVar(&f.memory, "memory", "", "memory that is reserved, and the most that it gets: 64Mi")
	flags.StringVar(&f.restart, "restart", "", "when to start it again: always, on-failure or never")
	flags.StringVarP(&f.note, "message", "m", "", "a note for the history")
	flags.StringArrayVar(&f.ports, "port", nil, "a port that it listens on, `NAME=PORT`; may be repeated")
	flags.StringArrayVar(&f.env, "env", nil, "an environment variable, `NAME=VALUE`; may be repeated")
	flags.StringArrayVar(&f.require, "require", nil, "a label that the machine must have, `NAME=VALUE`; may be repeated")
}

// fields is the spec that the flags describe. What is wrong with a value is told in the
// words of the field's table.
func (f *podFlags) fields(args []string) (api.Fields, error) {
	if f.image == "" {
		return nil, errors.New("name the image: peer run NAME --image IMAGE")
	}
	app := api.Join("spec", "containers", appContainer)
	fields := api.Fields{app + ".image": api.Str(f.image)}
	for path, v := range map[string]string{
		app + ".resources.cpu": f.cpu, app + ".resources.memory": f.memory, "spec.restart": f.restart,
	} {
		if v != "" {
			fields[path] = api.Str(v)
		}
	}
	if len(args) > 0 {
		fields[app+".args"] = api.List(args...)
	}
	err := errors.Join(
		pairs(fields, "--env", app+".env", f.env, api.Str),
		pairs(fields, "--require", "spec.require", f.require, api.Str),
		pairs(fields, "--port", app+".ports", f.ports, func(v string) string { return v }),
	)
	if err != nil {
		return nil, err
	}
	fields, problems := api.Normalize("Pod", fields)
	if len(problems) > 0 {
		return nil, &api.Error{Code: api.SpecInvalid, Message: "the pod would not be valid; nothing was changed", Problems: problems}
	}
	return fields, nil
}

// pairs puts NAME=VALUE pairs below a path.
func pairs(fields api.Fields, flag, path string, list []string, value func(string) string) error {
	for _, pair := range list {
		name, v, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return fmt.Errorf("%s %s: write it as NAME=VALUE", flag, pair)
		}
		fields[api.Child(path, name)] = value(v)
	}
	return nil
}

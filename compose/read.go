package compose

import (
	"context"
	"fmt"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"starling.dev/starling/api"
)

// Options say how to read.
type Options struct {
	// Files are Compose files; later ones override earlier ones. Required.
	Files []string
	// Profiles are those whose services are wanted beside the ones without any.
	Profiles []string
	// Environment is what ${NAME} in the files stands for, as "NAME=value". A .env file
	// beside the first file counts where it is silent.
	Environment []string
	// Namespace is where the objects go. Required.
	Namespace string
}

// Object is one object that the files mean.
type Object struct {
	Key    api.Key
	Fields api.Fields
}

// Omission is something that the files say and the objects do not.
type Omission struct {
	// Service and Field tell where it stands.
	Service, Field string
	// Why says what has become of it, and what to do instead.
	Why string
}

// String is one line for a person.
func (o Omission) String() string {
	return fmt.Sprintf("services.%s.%s: %s", o.Service, o.Field, o.Why)
}

// Read reads the files and converts them. Objects and omissions come in the order of the
// services' names.
func Read(ctx context.Context, o Options) ([]Object, []Omission, error) {
	options, err := cli.NewProjectOptions(o.Files,
		cli.WithEnv(o.Environment), cli.WithDotEnv, cli.WithProfiles(o.Profiles), cli.WithName("imported"))
	if err != nil {
		return nil, nil, fmt.Errorf("prepare to read the Compose files: %w", err)
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("read the Compose files: %w", err)
	}
	return convertAll(project, o.Namespace)
}

func convertAll(project *types.Project, namespace string) (objects []Object, left []Omission, err error) {
	for _, name := range project.ServiceNames() {
		c := &conversion{project: project, name: name, service: project.Services[name], fields: api.Fields{}}
		made, err := c.convert(namespace)
		if err != nil {
			return nil, nil, fmt.Errorf("services.%s: %w", name, err)
		}
		objects = append(objects, made...)
		left = append(left, c.left...)
	}
	return objects, left, nil
}

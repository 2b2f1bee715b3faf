package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// resolver speaks to registries. The library's own log lines go nowhere: the error
// that it returns says the same once.
func (i *Images) resolver() remotes.Resolver {
	client := &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
	}}
	authorizer := docker.NewDockerAuthorizer(docker.WithAuthClient(client), docker.WithAuthCreds(authFile(i.cfg.AuthFile).credentials))
	return docker.NewResolver(docker.ResolverOptions{
		Hosts: docker.ConfigureDefaultRegistries(
			docker.WithClient(client),
			docker.WithAuthorizer(authorizer),
			docker.WithPlainHTTP(i.plainHTTP)),
	})
}

func (i *Images) plainHTTP(host string) (bool, error) {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if slices.Contains(i.cfg.PlainHTTP, host) || slices.Contains(i.cfg.PlainHTTP, name) {
		return true, nil
	}
	return docker.MatchLocalhost(host)
}

// quiet keeps the registry library from writing to the process's standard error.
func quiet(ctx context.Context) context.Context {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	return log.WithLogger(ctx, logrus.NewEntry(logger))
}

// pull resolves the reference first, by itself: only that tells an image that does
// not exist from one that exists for other platforms.
func (i *Images) pull(ctx context.Context, ref imageRef) (containerd.Image, error) {
	ctx = quiet(ctx)
	remote := i.resolver()
	name, target, err := remote.Resolve(ctx, ref.name)
	if err != nil {
		return nil, i.resolveError(ref, err)
	}
	image, err := i.client.Pull(ctx, ref.name,
		containerd.WithResolver(resolved{remote, name, target}),
		containerd.WithPullUnpack,
		containerd.WithPullSnapshotter(i.cfg.Snapshotter))
	if err == nil {
		return image, nil
	}
	if found, perr := images.Platforms(ctx, i.client.ContentStore(), target); perr == nil {
		if perr := platformError(ref, found); perr != nil {
			return nil, perr
		}
	}
	return nil, i.pullError(ref, err)
}

// resolved is a resolver that already knows the one answer that is asked of it.
type resolved struct {
	remotes.Resolver
	name   string
	target ocispec.Descriptor
}

// Resolve returns the known answer.
func (r resolved) Resolve(context.Context, string) (string, ocispec.Descriptor, error) {
	return r.name, r.target, nil
}

// platformError is nil if one of the platforms is this machine's.
func platformError(ref imageRef, found []ocispec.Platform) error {
	here := platforms.Default()
	var names []string
	for _, p := range found {
		if here.Match(p) {
			return nil
		}
		names = append(names, platforms.Format(p))
	}
	if len(names) == 0 {
		return nil
	}
	return failure(api.ImagePlatform, nil, "image %s is for %s, and this machine is %s; build it for %[3]s, or require a machine that it fits",
		ref.given, strings.Join(names, ", "), platforms.Format(platforms.DefaultSpec()))
}

// resolveError says why a registry did not name the image.
func (i *Images) resolveError(ref imageRef, err error) error {
	if errdefs.IsNotFound(err) {
		return failure(api.ImageNotFound, err, "registry %s has no image %s; check the name and the tag", ref.domain, ref.given)
	}
	return i.pullError(ref, err)
}

// pullError says why a registry did not deliver the image.
func (i *Images) pullError(ref imageRef, err error) error {
	var status remoteerrors.ErrUnexpectedStatus
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("pull image %s: %w", ref.given, err)
	case errors.Is(err, docker.ErrInvalidAuthorization), errors.As(err, &status) && (status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden):
		return failure(api.Unauthorized, err, "registry %s refuses image %s: %s", ref.domain, ref.given, authFile(i.cfg.AuthFile).advice(ref.domain))
	case errors.As(err, &status) && status.StatusCode < http.StatusInternalServerError:
		return failure(api.ImageNotFound, err, "registry %s does not give image %s: %v", ref.domain, ref.given, err)
	case unreachableRegistry(err):
		return failure(api.RegistryUnreachable, err, "registry %s is not to be reached for image %s: %v", ref.domain, ref.given, err)
	}
	return fmt.Errorf("pull image %s: %w", ref.given, err)
}

// unreachableRegistry tells failures of the network and of the registry itself.
func unreachableRegistry(err error) bool {
	var status remoteerrors.ErrUnexpectedStatus
	var network net.Error
	return errors.As(err, &status) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// explain leaves a step's error as it is and says of any other what was attempted.
func (i *Images) explain(ref imageRef, err error) error {
	var step *lifecycle.Error
	if errors.As(err, &step) {
		return err
	}
	if errdefs.IsUnavailable(err) {
		return &unreachable{socket: i.cfg.Socket, cause: err}
	}
	return fmt.Errorf("make image %s ready: %w", ref.given, err)
}

package testimage

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Options say what goes into the image.
type Options struct {
	// Ref is the image's name; empty: localhost/hello:1.
	Ref string
	// Binary is the path of a static program for Linux; required. It becomes the
	// image's entrypoint.
	Binary string
	// Cmd are the arguments that the image gives by default.
	Cmd []string
	// Env are NAME=value lines of the image's configuration.
	Env []string
	// Files are further files by absolute path.
	Files map[string]string
	// Architecture is the one that the image claims; empty: this machine's.
	Architecture string
}

func (o Options) validate() error {
	if o.Binary == "" {
		return errors.New("the test image needs the path of a static program (Binary)")
	}
	return nil
}

// Build writes the image as an archive that `peer image load` takes.
func Build(ctx context.Context, out io.Writer, o Options) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.Ref == "" {
		o.Ref = "localhost/hello:1"
	}
	ref, err := name.NewTag(o.Ref)
	if err != nil {
		return fmt.Errorf("name the test image: %w", err)
	}
	image, err := Image(o)
	if err != nil {
		return err
	}
	if err := tarball.Write(ref, image, out); err != nil {
		return fmt.Errorf("write the archive of %s: %w", o.Ref, err)
	}
	return nil
}

// Image returns the image itself, for a test that pushes it to a registry.
func Image(o Options) (v1.Image, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	content, err := layer(o)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	packed, err := tarball.LayerFromOpener(open)
	if err != nil {
		return nil, fmt.Errorf("pack the test image's layer: %w", err)
	}
	image, err := mutate.AppendLayers(empty.Image, packed)
	if err != nil {
		return nil, fmt.Errorf("add the test image's layer: %w", err)
	}
	return mutate.ConfigFile(image, config(o, image))
}

// Compile builds a package of this module as a static program at path out.
func Compile(ctx context.Context, dir, pkg, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if printed, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", pkg, dir, err, printed)
	}
	return nil
}

// config keeps the layers' digests that AppendLayers filled in.
func config(o Options, image v1.Image) *v1.ConfigFile {
	file, err := image.ConfigFile()
	if err != nil {
		panic("an image that was made in memory has a configuration: " + err.Error())
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", o.Architecture
	if file.Architecture == "" {
		file.Architecture = runtime.GOARCH
	}
	file.Config.Entrypoint = []string{program(o)}
	file.Config.Cmd = o.Cmd
	file.Config.Env = append([]string{"PATH=/bin"}, o.Env...)
	return file
}

// program is the path of the program inside of the image.
func program(o Options) string { return "/bin/" + path.Base(o.Binary) }

// layer returns the image's files as a tar archive, in a fixed order and without
// times.
func layer(o Options) ([]byte, error) {
	binary, err := os.ReadFile(o.Binary)
	if err != nil {
		return nil, fmt.Errorf("read the test image's program: %w", err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"bin/", "etc/", "tmp/"} {
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: mode}); err != nil {
			return nil, fmt.Errorf("write %s of the test image: %w", dir, err)
		}
	}
	files := []file{
		{program(o), 0o755, binary},
		{"/etc/passwd", 0o644, []byte("root:x:0:0:root:/:\nnobody:x:65534:65534:nobody:/:\n")},
		{"/etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n")},
	}
	for _, f := range append(files, sorted(o.Files)...) {
		if err := f.write(w); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("finish the test image's layer: %w", err)
	}
	return buf.Bytes(), nil
}

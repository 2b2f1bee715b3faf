package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
	"starling.dev/starling/oci/tree"
)

func copyCommand(c *cli) *cobra.Command {
	var container string
	cmd := &cobra.Command{
		Use: "cp FROM TO", Short: "Copy files into or out of a container",
		Long: "Copy a file, or a directory and all below it, into or out of a running container, on whatever machine that is.\n" +
			"One of the two is OBJ:PATH. Where TO is a directory that exists the copy is made in it. The container needs no program for it.\n" +
			"- stands for an archive (tar) of the standard output, or input.",
		Example: "  peer cp web:/etc/app.conf .\n  peer cp ./site web:/srv",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			fromObject, fromPath, out := cutObject(args[0])
			toObject, toPath, in := cutObject(args[1])
			if out == in {
				return errors.New("one of the two must be in a container, as OBJ:PATH, and the other on this computer")
			}
			object, start := fromObject, &apiv1.CopyStart{Container: container, Path: fromPath}
			if in {
				object, start.Path, start.Write = toObject, toPath, true
			}
			key, err := c.oneObject(cmd.Context(), []string{object})
			if err != nil {
				return err
			}
			if start.Key = key; in {
				return c.copyIn(cmd.Context(), start, args[0])
			}
			return c.copyOut(cmd.Context(), start, args[1])
		},
	}
	cmd.Flags().StringVarP(&container, "container", "c", "", "the container, where there are several")
	return cmd
}

// cutObject takes OBJ:PATH apart. A path of this computer that has a colon is written with
// a slash before it: ./a:b.
func cutObject(arg string) (object, path string, ok bool) {
	object, path, ok = strings.Cut(arg, ":")
	if !ok || object == "" || strings.HasPrefix(object, ".") || strings.HasPrefix(object, "/") {
		return "", "", false
	}
	if path == "" {
		path = "/"
	}
	return object, path, true
}

// copyOut unpacks what the container's machine sends.
func (c *cli) copyOut(ctx context.Context, start *apiv1.CopyStart, to string) error {
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	if to == stdinName {
		return receiveCopy(ctx, p, start, c.out)
	}
	into, as := to, ""
	if info, err := os.Stat(to); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		into, as = filepath.Dir(to), filepath.Base(to)
	}
	root, err := os.OpenRoot(into)
	if err != nil {
		return fmt.Errorf("open where to copy to: %w", err)
	}
	defer root.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	go func() { w.CloseWithError(receiveCopy(ctx, p, start, w)) }()
	err = tree.Unpack(r, root, as)
	if err == nil {
		_, err = io.Copy(io.Discard, r) // an archive's padding, and the peer's last word
	}
	return err
}

func receiveCopy(ctx context.Context, p *client.Client, start *apiv1.CopyStart, w io.Writer) error {
	stream, err := p.Copy(ctx)
	if err != nil {
		return err
	}
	defer stream.CloseResponse()
	if err := stream.Send(&apiv1.CopyData{Start: start}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseRequest(); err != nil {
		return err
	}
	for {
		got, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(got.GetData()); err != nil {
			return err
		}
	}
}

// copyIn sends a file or directory of this computer, or the archive of the standard input.
func (c *cli) copyIn(ctx context.Context, start *apiv1.CopyStart, from string) error {
	write := func(w io.Writer) error {
		_, err := io.Copy(w, c.in)
		return err
	}
	if from != stdinName {
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		defer f.Close()
		write = func(w io.Writer) error { return pack(f, from, w) }
	}
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	stream, err := p.Copy(ctx)
	if err != nil {
		return err
	}
	defer stream.CloseResponse()
	err = stream.Send(&apiv1.CopyData{Start: start})
	if err == nil {
		err = write(copyWriter(func(b []byte) error { return stream.Send(&apiv1.CopyData{Data: b}) }))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseRequest(); err != nil {
		return err
	}
	// The answer tells what is wrong, also with what was sent.
	if _, err := stream.Receive(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func pack(f *os.File, from string, w io.Writer) error {
	absolute, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return tree.PackFile(w, f, filepath.Base(absolute))
	}
	root, err := os.OpenRoot(absolute)
	if err != nil {
		return err
	}
	defer root.Close()
	return tree.PackDir(w, root, filepath.Base(absolute))
}

// copyWriter sends what is written in messages of a fair size.
type copyWriter func([]byte) error

func (send copyWriter) Write(b []byte) (int, error) {
	for at := 0; at < len(b); at += chunkSize {
		if err := send(b[at:min(at+chunkSize, len(b))]); err != nil {
			return at, err
		}
	}
	return len(b), nil
}

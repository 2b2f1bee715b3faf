package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
)

// chunkSize is how much of an archive goes into one message.
const chunkSize = 256 << 10

func imageCommand(c *cli) *cobra.Command {
	cmd := group(&cobra.Command{Use: "image", Short: "The images that the machines hold"})
	cmd.AddCommand(imageListCommand(c), imageLoadCommand(c), imageRemoveCommand(c), imagePruneCommand(c))
	return cmd
}

func imageListCommand(c *cli) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "ls", Short: "List the images of all machines in reach",
		Aliases: []string{"list"},
		Example: "  peer image ls",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			got, err := p.Images(cmd.Context(), &apiv1.ImagesRequest{})
			if err != nil {
				return err
			}
			return c.printImages(got, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return cmd
}

func (c *cli) printImages(got *apiv1.ImagesResponse, output string) error {
	if output != "" {
		return c.printMessage(got, output)
	}
	c.print(c.style().Images(got.GetImages()))
	c.view(got.GetView())
	return nil
}

func imageRemoveCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "rm IMAGE…", Short: "Remove images from the machine that is asked", Aliases: []string{"remove"},
		Long:    "Remove images from the machine that is asked, loaded ones too. One that a pod there needs, for its present rev or the one before, is refused.",
		Example: "  peer image rm localhost/hello:1",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.removeImages(cmd.Context(), args) },
	}
}

func imagePruneCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "prune", Short: "Remove the images that nothing needs from the machine that is asked",
		Long: "Remove, from the machine that is asked, the images that no pod there needs for its present rev or the one before.\n" +
			"Images that were loaded stay: they may be the only copy. Each machine does the same by itself with what nothing has needed for a day, or at once when its disk is nearly full.",
		Example: "  peer image prune",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.removeImages(cmd.Context(), nil) },
	}
}

func (c *cli) removeImages(ctx context.Context, refs []string) error {
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	got, err := p.RemoveImages(ctx, &apiv1.RemoveImagesRequest{Refs: refs})
	if err != nil {
		return err
	}
	return c.printImages(got, "")
}

func imageLoadCommand(c *cli) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "load -f FILE", Short: "Bring images in from an archive, without any registry",
		Long:    "Bring the images of an archive (of `docker save`, or an OCI layout in a tar file) to the machine that is asked.",
		Example: "  peer image load -f hello.tar\n  docker save hello:1 | peer image load -f -",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			archive, err := c.open(file)
			if err != nil {
				return err
			}
			defer archive.Close()
			got, err := c.load(cmd.Context(), archive)
			if err != nil {
				return err
			}
			return c.printImages(got, "")
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "the archive, or - for the standard input")
	return cmd
}

func (c *cli) open(file string) (io.ReadCloser, error) {
	switch file {
	case "":
		return nil, errors.New("name the archive with -f, or - for the standard input")
	case stdinName:
		return io.NopCloser(c.in), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	return f, nil
}

func (c *cli) load(ctx context.Context, archive io.Reader) (*apiv1.ImagesResponse, error) {
	p, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	stream, err := p.LoadImage(ctx)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, chunkSize)
	for {
		n, err := archive.Read(buf)
		if n > 0 && stream.Send(&apiv1.ImageChunk{Data: buf[:n]}) != nil {
			break // the answer tells what is wrong
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the archive: %w", err)
		}
	}
	return stream.CloseAndReceive()
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
	"starling.dev/starling/client/text"
)

func editCommand(c *cli) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "edit OBJ", Short: "Change an object in an editor",
		Long: "Change an object in $VISUAL, $EDITOR, or vi. What is wrong is shown in the editor again. If somebody else\n" +
			"changes the object meanwhile, nothing is overwritten.",
		Example:           "  peer edit web",
		Args:              objectArgs(1, 1),
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.oneObject(cmd.Context(), args)
			if err != nil {
				return err
			}
			e, err := c.newEditing(cmd.Context(), client.KeyOf(key))
			if err != nil {
				return err
			}
			e.note = note
			return e.run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&note, "message", "m", "", "a note for the history")
	return cmd
}

// editing is one object in an editor.
type editing struct {
	c    *cli
	key  api.Key
	base string // the change that the editor shows
	note string
	file string // what is being edited
}

// newEditing writes the object to a temporary file.
func (c *cli) newEditing(ctx context.Context, key api.Key) (*editing, error) {
	base, err := c.headOf(ctx, key)
	if err != nil {
		return nil, err
	}
	o, err := c.getOne(ctx, client.KeyTo(key))
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "peer-"+key.Name+"-*.yaml")
	if err != nil {
		return nil, fmt.Errorf("make a file to edit: %w", err)
	}
	_, err = f.WriteString(text.ObjectYAML(o))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("write the file to edit: %w", err)
	}
	return &editing{c: c, key: key, base: base, file: f.Name()}, nil
}

// headOf is the change that made the object what it is. It is asked for first: whatever
// comes between it and the object is then refused, not overwritten.
func (c *cli) headOf(ctx context.Context, key api.Key) (string, error) {
	p, err := c.dial()
	if err != nil {
		return "", err
	}
	defer p.Close()
	got, err := p.History(ctx, &apiv1.HistoryRequest{Key: client.KeyTo(key)})
	if err != nil {
		return "", err
	}
	base := ""
	for _, e := range got.GetEntries() {
		if e.GetCurrent() {
			base = e.GetChange()
		}
	}
	return base, nil
}

// run lets the person edit until the text is valid, unchanged or empty. Where it ends
// with an error, the text is kept, and the error says where.
func (e *editing) run(ctx context.Context) error {
	problem := error(nil)
	for {
		before, after, err := e.open(ctx)
		if err != nil {
			return fmt.Errorf("%w\nyour text is kept in %s", err, e.file)
		}
		same := bytes.Equal(before, after) || strings.TrimSpace(withoutComments(after)) == ""
		if same && problem == nil {
			e.c.say("nothing was changed")
			return os.Remove(e.file)
		}
		if same {
			return fmt.Errorf("%w\nyour text is kept in %s", problem, e.file)
		}
		body := withoutMarks(after)
		if problem = e.apply(ctx, body); problem == nil {
			return os.Remove(e.file)
		}
		if api.CodeOf(problem) != api.SpecInvalid {
			return fmt.Errorf("%w\nyour text is kept in %s", problem, e.file)
		}
		if err := os.WriteFile(e.file, annotate(body, problem), 0o600); err != nil {
			return fmt.Errorf("write the file to edit: %w", err)
		}
	}
}

// open runs the editor, which may be a command with arguments, and returns the text
// before and after.
func (e *editing) open(ctx context.Context) (before, after []byte, err error) {
	if before, err = os.ReadFile(e.file); err != nil {
		return nil, nil, fmt.Errorf("read the edited file: %w", err)
	}
	editor := cmp.Or(e.c.env("VISUAL"), e.c.env("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", e.file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.c.in, e.c.out, e.c.errs
	if err := cmd.Run(); err != nil {
		return nil, nil, fmt.Errorf("run the editor %q: %w", editor, err)
	}
	if after, err = os.ReadFile(e.file); err != nil {
		return nil, nil, fmt.Errorf("read the edited file: %w", err)
	}
	return before, after, nil
}

func (e *editing) apply(ctx context.Context, edited []byte) error {
	specs, err := e.c.kindsFor(ctx, []rawFile{{e.file, edited}}).ParseYAML(e.file, edited)
	if err != nil {
		return err
	}
	if len(specs) != 1 || specs[0].Key != e.key {
		return &api.Error{Code: api.SpecInvalid, Message: fmt.Sprintf("the text must describe %s and nothing else", e.key)}
	}
	file := []specFile{{specs[0], e.file}}
	edit := applyEdits(file)[0]
	edit.BaseRev, edit.MustExist = e.base, true
	return located(e.c.change(ctx, noteOf(e.note, file), edit), file)
}

// problemMark begins the lines that say what is wrong with the text.
const problemMark = "#! "

// annotate puts what is wrong above the text. Lines are counted as the person sees
// them, below the annotation.
func annotate(body []byte, problem error) []byte {
	said := (*api.Error)(nil)
	if errors.As(problem, &said) {
		moved := *said
		moved.Problems = slices.Clone(said.Problems)
		for i := range moved.Problems {
			if at := &moved.Problems[i].At; !at.IsZero() {
				at.Line += strings.Count(problem.Error(), "\n") + 1
			}
		}
		problem = &moved
	}
	var b bytes.Buffer
	for line := range strings.Lines(problem.Error()) {
		b.WriteString(problemMark + strings.TrimSuffix(line, "\n") + "\n")
	}
	b.Write(body)
	return b.Bytes()
}

// withoutMarks takes the annotation away.
func withoutMarks(text []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(problemMark)) {
			b.Write(line)
		}
	}
	return b.Bytes()
}

func withoutComments(text []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

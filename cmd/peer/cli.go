package main

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
	"starling.dev/starling/client/text"
)

// cli is what all commands share: the terminal, the environment, and the flags that
// every command takes.
type cli struct {
	in        io.Reader
	out, errs io.Writer
	env       func(string) string
	now       func() time.Time
	color     bool
	width     int // of the terminal that the output goes to; 0 where it is none

	socket, lab, as string

	kinds *api.Catalog // once it was asked for
}

// colored reports whether the output is a terminal of a person who has nothing against
// colours (https://no-color.org).
func colored() bool {
	return term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// columns is the width of the terminal that the output goes to, 0 where it goes elsewhere.
func columns() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return width
}

func (c *cli) addFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&c.socket, "socket", "", "the peer's socket (default "+client.DefaultSocket+", or $"+client.SocketEnv+")")
	f.StringVar(&c.lab, "lab", "", "speak to machine `N` of the lab on this computer, or to NAME/N of another lab")
	f.StringVar(&c.as, "as", "", "the author of a change (default: who is logged in)")
}

// dial returns a client of the peer that the flags name.
func (c *cli) dial() (*client.Client, error) {
	path, err := client.Selection{Socket: c.socket, Lab: c.lab, Env: c.env(client.SocketEnv)}.Path()
	if err != nil {
		return nil, err
	}
	return client.New(path), nil
}

// author is who a change is made by: people work as root through sudo, and their own
// name is the one worth keeping.
func (c *cli) author() string {
	if c.as != "" {
		return c.as
	}
	if name := c.env("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "root"
}

func (c *cli) style() text.Style {
	return text.Style{Now: c.now(), Color: c.color, Width: c.width, Kinds: c.kinds}
}

func (c *cli) print(s string) { _, _ = io.WriteString(c.out, s) } // a closed pipe ends us by its signal

func (c *cli) say(format string, args ...any) { _, _ = fmt.Fprintf(c.errs, format+"\n", args...) }

// note prints beside the answer, so that pipes carry the answer alone.
func (c *cli) note(s string) { _, _ = io.WriteString(c.errs, s) }

// view tells, beside an answer, which machines it could not know about.
func (c *cli) view(v *apiv1.View) { c.note(c.style().View(v)) }

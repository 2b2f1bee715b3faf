package main

import (
	"bytes"
	"time"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
)

func logsCommand(c *cli) *cobra.Command {
	req := &apiv1.LogsRequest{}
	var since string
	var stamps bool
	cmd := &cobra.Command{
		Use: "logs OBJ", Short: "Print what a container wrote",
		Example:           "  peer logs web -f --tail 20\n  peer logs web --previous",
		Args:              objectArgs(1, 1),
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Key, err = c.oneObject(cmd.Context(), args); err != nil {
				return err
			}
			if req.SinceMs, err = c.since(since); err != nil {
				return err
			}
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			lines, err := p.Logs(cmd.Context(), req)
			if err != nil {
				return err
			}
			defer lines.Close()
			for lines.Receive() {
				c.print(logLine(lines.Msg(), stamps))
			}
			return ended(lines.Err())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&req.Container, "container", "c", "", "the container, where there are several")
	f.BoolVarP(&req.Follow, "follow", "f", false, "go on as it writes more, also through restarts")
	f.BoolVar(&req.Previous, "previous", false, "of the run before the last restart")
	f.Int32Var(&req.Tail, "tail", 0, "only the last `N` lines")
	f.StringVar(&since, "since", "", "only the last `TIME`, as in 10m, or since a time as in 2006-01-02T15:04:05Z")
	f.BoolVarP(&stamps, "timestamps", "t", false, "put the time before each line")
	return cmd
}

func logLine(l *apiv1.LogLine, stamps bool) string {
	line := string(bytes.TrimSuffix(l.GetLine(), []byte("\n"))) + "\n"
	if stamps {
		line = time.Unix(0, l.GetTimeNs()).UTC().Format("2006-01-02T15:04:05.000Z") + " " + line
	}
	return line
}

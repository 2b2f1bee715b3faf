package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
)

// duration is the value of a flag that is written as the durations in specs are.
type duration struct{ to *time.Duration }

func (d duration) String() string {
	if d.to == nil {
		return ""
	}
	return api.FormatDuration(*d.to)
}

func (d duration) Set(s string) (err error) {
	*d.to, err = api.ParseDuration(s)
	return err
}

// Type is what help calls the value.
func (d duration) Type() string { return "duration" }

// atMost refuses what a flag can't mean.
func (d duration) atMost(flag string, most time.Duration) error {
	switch {
	case *d.to <= 0:
		return fmt.Errorf("%s %s: give more than nothing", flag, d)
	case most > 0 && *d.to > most:
		return fmt.Errorf("%s %s: the most is %s", flag, d, api.FormatDuration(most))
	}
	return nil
}

// The words of pflag, which a test holds on to.
var (
	flagMissing = regexp.MustCompile(`^unknown (?:shorthand )?flag: (?:'(.)' in -.*|(--\S+))$`)
	flagWrong   = regexp.MustCompile(`^invalid argument "(.*)" for "(?:-., )?(--\S+)" flag: (.*)$`)
)

// flagHabits tell what people do here in place of flags that they know from elsewhere.
var flagHabits = map[string]string{
	"logs -p":          "write --previous",
	"logs -n":          "write --tail N; an object of another namespace is pod/shop/web",
	"get --selector":   "write --label KEY=VALUE, or -l",
	"-n":               "write an object of another namespace as KIND/NAMESPACE/NAME, as in pod/shop/web",
	"--namespace":      "write an object of another namespace as KIND/NAMESPACE/NAME, as in pod/shop/web",
	"-A":               "lists hold all namespaces, unless -n names one",
	"--all-namespaces": "lists hold all namespaces, unless -n names one",
	"--all":            "name the objects, or a file that does with -f",
	"--dry-run":        "`peer plan -f FILE` tells what would change, and changes nothing",
	"--force":          "nothing is forced here; `peer why OBJ` names what holds it up, `peer switch OBJ TARGET --skip STEP` passes that over",
	"--grace-period":   "spec.stop.grace of the pod says how long it may take to stop",
	"--record":         "every change is on the record; -m adds a note",
	"--kubeconfig":     "a command speaks to the peer of its machine; --socket names another",
	"--context":        "a command speaks to the peer of its machine; --socket names another",
	"--host":           "a command speaks to the peer of its machine; --socket names another",
	"-d":               "pods run by themselves; `peer logs OBJ -f` follows what one writes",
	"--detach":         "pods run by themselves; `peer logs OBJ -f` follows what one writes",
	"--rm":             "`peer delete OBJ` removes a pod; `peer run --restart never` has it run once",
	"-p":               "--port NAME=PORT names a port of the pod; spec.containers.*.hostPorts is one of its machine",
	"--publish":        "--port NAME=PORT names a port of the pod; spec.containers.*.hostPorts is one of its machine",
	"-e":               "write --env NAME=VALUE",
	"--volume":         "volumes stand in a file: `peer explain pod.spec.volumes`, then `peer apply -f FILE`",
	"--name":           "the name comes first: peer run NAME --image IMAGE",
	"--network":        "there is one network; every pod is on it",
	"--follow":         "-w goes on with each change",
}

// flagError tells what is wrong with a flag in our words, and what to do.
func flagError(cmd *cobra.Command, err error) error {
	if m := flagMissing.FindStringSubmatch(err.Error()); m != nil {
		flag := m[2]
		if m[1] != "" {
			flag = "-" + m[1]
		}
		name, _, _ := strings.Cut(flag, "=")
		if instead := cmp.Or(flagHabits[cmd.Name()+" "+name], flagHabits[name]); instead != "" {
			return fmt.Errorf("`%s` has no flag %s: %s", cmd.CommandPath(), name, instead)
		}
		return fmt.Errorf("`%s` has no flag %s; `%s --help` lists those that it has", cmd.CommandPath(), name, cmd.CommandPath())
	}
	if m := flagWrong.FindStringSubmatch(err.Error()); m != nil {
		why := m[3]
		switch {
		case strings.Contains(why, "value out of range"):
			why = "the number is too large"
		case strings.HasPrefix(why, "strconv.ParseInt"):
			why = "write a whole number"
		case strings.HasPrefix(why, "strconv.ParseBool"):
			why = "write true or false"
		}
		return fmt.Errorf("%s %q: %s", m[2], m[1], strings.TrimPrefix(why, fmt.Sprintf("%q ", m[1])))
	}
	if rest, ok := strings.CutPrefix(err.Error(), "flag needs an argument: "); ok && cmd.Name() == "exec" {
		return fmt.Errorf("flag needs an argument: %s; if it is the command's own, put -- before the command: peer exec OBJ -- COMMAND", rest)
	}
	return err
}

// group is a command that only has others below it: a word that is none of them is an error.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var there []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				there = append(there, sub.Name())
			}
		}
		return fmt.Errorf("there is no `%s %s`; there are %s", cmd.CommandPath(), args[0], strings.Join(there, ", "))
	}
	cmd.Args = cobra.ArbitraryArgs
	return cmd
}

// helpCommand is cobra's, but that a topic which does not exist is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			var words []string
			if at, _, err := cmd.Root().Find(args); err == nil {
				for _, sub := range at.Commands() {
					if sub.IsAvailableCommand() {
						words = append(words, sub.Name())
					}
				}
			}
			return startingWith(begun, words), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return errors.New("there is no help about " + strings.Join(args, " ") + "; `peer help` lists the commands")
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"starling.dev/starling/oci"
)

const rootHelp = `Starling is a cluster of peers that runs containers. Every machine runs this program;
there is no server and no leader, so that any peer takes any command.

An object is written as KIND/NAME or KIND/NAMESPACE/NAME; a lone NAME is a pod.`

func rootCommand(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use: "peer", Short: "Run containers on a cluster of peers", Long: rootHelp,
		Version: version, SilenceUsage: true, SilenceErrors: true,
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.errs)
	c.addFlags(root)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		runCommand(c), applyCommand(c), planCommand(c), editCommand(c), deleteCommand(c),
		restartCommand(c), switchCommand(c), rollbackCommand(c), rollCommand(c),
		getCommand(c), statusCommand(c), whyCommand(c), historyCommand(c), eventsCommand(c), analyzeCommand(c), metricsCommand(c), explainCommand(c), verifyCommand(c),
		logsCommand(c), execCommand(c), forwardCommand(c), waitCommand(c),
		machineCommand(c), inviteCommand(c), imageCommand(c), copyCommand(c), importCommand(c), topCommand(c), doctorCommand(c), debugCommand(c),
		here(upCommand()), here(joinCommand()), here(installCommand()), here(leaveCommand()), labCommand(), simCommand(c),
		loggerCommand(oci.RunLogger), guardCommand(oci.RunGuard), demoImageCommand(),
		exitCodesTopic(),
	)
	root.AddCommand(habitCommands(c)...)
	return root
}

// here is for commands that act on the machine that they run on. One that was meant for
// another machine must not do it to this one.
func here(cmd *cobra.Command) *cobra.Command {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, flag := range []string{"lab", "socket"} {
			if cmd.Flags().Changed(flag) {
				return fmt.Errorf("--%s: peer %s acts on the machine that it runs on; run it there, in a lab with `peer lab exec N -- peer %s`", flag, cmd.Name(), cmd.Name())
			}
		}
		return nil
	}
	return cmd
}

// alias hides a command under a word that people bring with them.
func alias(cmd *cobra.Command, use string) *cobra.Command {
	cmd.Use, cmd.Hidden = use, true
	return cmd
}

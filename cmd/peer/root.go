package main

import (
	"fmt"
	"os"

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
	c.completeFlags(root)
	return root
}

// labEnv names the lab's machine, as NAME/N, that `peer lab exec` runs a command on.
const labEnv = "PEER_LAB"

// here is for commands that act on the machine that they run on. One that was meant for
// another machine must not do it to this one; nor one that was meant for a machine of a lab,
// which is but a network of this computer: its disk, containers and services are ours.
func here(cmd *cobra.Command) *cobra.Command {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, flag := range []string{"lab", "socket"} {
			if cmd.Flags().Changed(flag) {
				return fmt.Errorf("--%s: peer %s acts on the machine that it runs on; type it there. In a lab, "+
					"a machine goes with `peer lab kill N` and `peer machine remove NAME`", flag, cmd.Name())
			}
		}
		if at := os.Getenv(labEnv); at != "" && !cmd.Flags().Changed("data") {
			return fmt.Errorf("peer %s acts on this whole computer, and machine %s is but a network of it; "+
				"it goes with `peer lab kill N` and `peer machine remove NAME`", cmd.Name(), at)
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

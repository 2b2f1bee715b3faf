package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// habitCommands are words that people bring with them from elsewhere. What means the same as
// a command of ours is that command; for the rest, an error tells how it is done here. None
// of them is listed.
func habitCommands(c *cli) []*cobra.Command {
	inspect := alias(getCommand(c), "inspect OBJ")
	inspect.Flags().Lookup("output").DefValue = "yaml"
	_ = inspect.Flags().Set("output", "yaml") // the flag exists
	list := []*cobra.Command{
		alias(statusCommand(c), "describe [KIND|OBJ]"),
		alias(planCommand(c), "diff"),
		before(getCommand(c), "ps", "pods"),
		inspect,
		alias(deleteCommand(c), "rm OBJ... | -f FILE"),
		alias(rollbackCommand(c), "undelete OBJ"),
		behind(switchCommand(c), "stop OBJ", "stopped"),
		behind(switchCommand(c), "start OBJ", "ready"),
		scaleCommand(c),
		alias(forwardCommand(c), "port-forward OBJ LOCAL:REMOTE"),
		alias(topCommand(c), "stats"),
		alias(imageListCommand(c), "images"),
		alias(machineCommand(c), "node"), alias(machineCommand(c), "machines"), alias(machineListCommand(c), "nodes"),
		alias(machineDrainCommand(c), "drain NAME"), alias(machineResumeCommand(c), "uncordon NAME"),
		versionCommand(),
	}
	for word, instead := range otherwise {
		list = append(list, otherwiseCommand(word, instead))
	}
	return list
}

// before makes a word mean a command with arguments of its own in front.
func before(cmd *cobra.Command, use string, first ...string) *cobra.Command {
	run := cmd.RunE
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, append(first, args...)) }
	return alias(cmd, use)
}

// behind makes a word mean a command of one object with further arguments.
func behind(cmd *cobra.Command, use string, last ...string) *cobra.Command {
	run := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("name one object: %s", cmd.UseLine())
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, append(args[:1:1], last...)) }
	return alias(cmd, use)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Hidden: true, Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "peer version %s\n", version)
			return err
		},
	}
}

// otherwise tells how people do here what a word stands for elsewhere.
var otherwise = map[string]string{
	"create":        "`peer apply -f FILE` makes what is not there yet and changes what is; `peer run NAME --image IMAGE` makes a pod without a file",
	"replace":       "`peer apply -f FILE` states the whole spec: what it does not name any more is removed",
	"patch":         "`peer edit OBJ` changes single fields; `peer get OBJ -o yaml` prints what `peer apply -f -` takes",
	"set":           "`peer edit OBJ` changes single fields; `peer get OBJ -o yaml` prints what `peer apply -f -` takes",
	"rollout":       "`peer status OBJ` tells how far it is, `peer wait OBJ` waits for it, `peer roll OBJ 10%`, `pause` and `abort` move it, `peer rollback OBJ` takes it back, `peer restart OBJ` restarts in place, `peer history OBJ` lists the revs",
	"expose":        "a Service is a name and an address for pods: `peer explain service.spec`, then `peer apply -f FILE`",
	"autoscale":     "spec.scaling of a PinnedDeployment hands the number of pods over to a loop: `peer explain pinneddeployment.spec.scaling`",
	"label":         "`peer machine label NAME KEY=VALUE` labels machines; the labels of pods stand in spec.labels: `peer edit OBJ`",
	"annotate":      "objects have no annotations; a note for the history is given with -m: `peer apply -m NOTE -f FILE`",
	"cordon":        "`peer machine drain NAME` has a machine take no more pods, and moves those away that it has; `peer machine resume NAME` ends it",
	"taint":         "pods choose machines by labels: `peer machine label NAME KEY=VALUE`, and spec.require of the pod",
	"api-resources": "`peer explain KIND` tells about a kind; the kinds are listed where a word is none: `peer explain ?`",
	"cluster-info":  "`peer machine ls` lists the machines, `peer status` tells where everything stands",
	"info":          "`peer machine ls` lists the machines, `peer status` tells where everything stands, `peer doctor` looks at this one",
	"config":        "there is nothing to configure: a command speaks to the peer of its machine; `peer --socket PATH` names another",
	"context":       "a command speaks to the peer of its machine; `peer --socket PATH` names another",
	"auth":          "`peer history` tells who changed what; `peer --as NAME` names the author of a change",
	"attach":        "`peer logs OBJ -f` follows what a container writes; `peer exec -it OBJ -- COMMAND` runs something beside it",
	"kill":          "`peer restart OBJ` restarts a pod in place, `peer switch OBJ stopped` stops it, `peer delete OBJ` removes it",
	"pull":          "machines fetch images by themselves when a pod needs them; `peer image load -f FILE` brings one in without a registry",
	"push":          "`peer image load -f FILE` brings an image in; machines fetch it from each other",
	"build":         "images are built elsewhere; `docker save IMAGE | peer image load -f -` brings one in",
	"login":         "credentials of a registry stand in auth.json in the data directory of the machine that pulls; `peer up --registry-auth FILE` names another file",
	"init":          "`peer up` begins a cluster on this machine, `peer install` does so as a service; `peer invite` prints the line that joins others",
	"swarm":         "`peer up` begins a cluster on this machine, `peer invite` prints the line that joins others, `peer leave` leaves",
	"server":        "there is no server; `peer up` runs a peer on each machine",
	"agent":         "every machine runs the same: `peer up`",
	"token":         "`peer invite` prints a token, in the line that joins a machine",
	"job":           "`peer apply -f FILE` runs what a file says, `peer status OBJ` tells how it is, `peer plan -f FILE` what would change",
	"alloc":         "`peer get pods -o wide` tells where pods run, `peer logs OBJ` and `peer exec OBJ -- COMMAND` look inside",
	"service":       "`peer get services` lists services, `peer apply -f FILE` makes them, `peer roll OBJ 10%` moves a deployment on",
	"stack":         "`peer import compose.yaml | peer apply -f -` turns a Compose file into objects",
	"compose":       "`peer import compose.yaml | peer apply -f -` turns a Compose file into objects",
	"deploy":        "`peer apply -f FILE` makes objects what a file says; `peer import compose.yaml` turns a Compose file into such a file",
	"container":     "`peer get pods` lists pods, `peer logs OBJ` and `peer exec OBJ -- COMMAND` look inside",
	"network":       "there is one network; `peer status machine/NAME --net` shows what a machine has of it",
	"volume":        "volumes stand in the pod, in spec.volumes: `peer explain pod.spec.volumes`",
	"secret":        "there are no secrets yet",
	"namespace":     "a namespace is there as soon as an object names it, as in pod/shop/web; `peer get pods -n shop` lists what is in it",
	"rename":        "a name is for life: `peer get OBJ -o yaml` prints what to apply under another one; then `peer delete OBJ`",
	"ls":            "`peer get` lists objects, `peer machine ls` machines, `peer image ls` images",
}

func otherwiseCommand(word, instead string) *cobra.Command {
	return &cobra.Command{
		Use: word, Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("there is no `peer " + word + "`: " + instead)
		},
	}
}

package main

import "github.com/spf13/cobra"

func metricsCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "metrics", Short: "Print what the peer knows as metrics, for Prometheus",
		Long: "Print the peer's metrics in Prometheus' text format: objects by verdict, machines, how long steps take, how much\n" +
			"loops write. They are at /metrics of the peer's socket; no port is opened for them. With node_exporter, write them\n" +
			"into its textfile directory.",
		Example: "  peer metrics > /var/lib/prometheus/node-exporter/starling.prom\n  curl --unix-socket /run/starling/peer.sock http://peer/metrics",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			text, err := p.Metrics(cmd.Context())
			if err != nil {
				return err
			}
			c.print(text)
			return nil
		},
	}
}

package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// metricsLimit bounds what is read of a peer's metrics.
const metricsLimit = 16 << 20

// Metrics returns the peer's metrics in Prometheus' text format.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://peer/metrics", nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{Transport: c.transport}).Do(request)
	if err != nil {
		return "", fmt.Errorf("ask for the metrics: %w", err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, metricsLimit))
	if err != nil {
		return "", fmt.Errorf("read the metrics: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the peer has no metrics: %s: %s", answer.Status, raw)
	}
	return string(raw), nil
}

// Package compose reads Compose files (https://compose-spec.io) and says what they mean in
// Starling's kinds. A Compose service becomes a Pod, or a PinnedDeployment if it has several
// replicas, and a Service of its name, so that the others find it as they did before.
//
// What has no counterpart is left out and listed, never guessed: a converted file does what
// it says, and the list tells what it does not.
package compose

// Package sinks tests the connector's kubernetes sink on a real API server: real Node objects, service accounts with exactly the
// chart's rights, tokens bound to pods on nodes, and the policy that fences the socket connector in. One control plane
// serves the whole package.
package sinks

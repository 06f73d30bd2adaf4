// Package connector tests cmd/connector on a real control plane: the built program in both roles, over a real Unix socket and
// real TLS, with tokens that a real API server has made, and watches and reviews of what becomes of their owners.
package connector

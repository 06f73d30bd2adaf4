// Package tokens tests internal/tokenreview and internal/liveness on a real control plane: real TokenRequests for pods, nodes
// and accounts, real TokenReviews of them, and real watches of what becomes of their owners.
package tokens

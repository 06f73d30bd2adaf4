// Package publishers proves the connector's half of Lanyard on a real cluster of two nodes: kubelets that make and rotate the
// publishers' tokens, containers that run them, the chart as helm installs it with cert-manager's certificates, and every kind of
// trouble that a cluster has while events come in: rollouts, killed and paused programs, power cuts, a node made anew.
//
// All tests share one cluster. Those that disturb it run first, one after the other; those that do not run after them, beside each
// other (t.Parallel), while one publisher has been sending since the start through the rotation of its token.
package publishers

// Package kubernetes is the sink that shows health events on nodes: as node conditions and as core Events. What to write is
// decided by the package conditions; this one reads, writes, and keeps within bounds.
//
// It needs to list nodes, patch nodes/status, and create and patch events. It writes conditions by type, with the resource
// version that it has read, so that it can neither undo what the kubelet writes nor lose what another replica has written
// meanwhile. In the socket role it writes to its own node alone, and the policy lanyard-node-status makes sure of it in the
// API server; whoever puts this sink to use there makes sure first that the policy is in force (connector.Fence tries it).
//
// When a node has been written to as often as it may be in a minute, the batch is to be offered again: a condition that
// is late is better than one that is lost. An Event beyond its bound is dropped and counted, and so is a condition of a new
// type beyond theirs. The last quarter of each bound is for verified callers, whom a flood of others must not silence.
package kubernetes

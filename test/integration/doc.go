// Package integration tests Lanyard on a real control plane: the chart's objects, the webhook's program and the policies
// together, in the order in which an API server calls them. There are no nodes, so nothing runs; everything up to a pod's
// being stored is real.
//
// One control plane serves the whole package. Tests that call t.Parallel share it, each in namespaces of its own. A test that
// pauses or removes something does not call t.Parallel, and puts back what it took before it ends: Go runs such tests before
// all parallel ones.
package integration

// Package reconcile keeps the store's submissions and rows as the cluster is: it watches pods and job kinds, judges them by
// package provenance, and writes what was decided. It is level-triggered: a watch only says where to look, and what is
// believed is read live, so a restart lists everything again and comes to the same result.
//
//	pod or job event -> live reads -> policies unchanged since? -> provenance -> submission, row, Event, waiters woken
//	policy or namespace event -> compare with what this program's own configuration makes -> in order, rollout or drift; epoch
//	every minute -> rows whose pods are gone, submissions whose objects are gone, renewals, old records collected
//
// It is built on client-go's metadata watches and a work queue rather than on controller-runtime: what is watched is never
// believed, so a cache of whole objects would hold the cluster's pods for nothing; and it must be stopped and started with
// the leader's lease inside a process that serves tokens meanwhile.
package reconcile

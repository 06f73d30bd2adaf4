// Package reconcile runs the exchange's reconciler against a real API server and the real Job and CronJob controllers, with
// the chart's policies and webhook in force. There are no nodes: the tests bind pods and write their status themselves.
package reconcile

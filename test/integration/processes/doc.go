// Package processes runs cmd/exchange as it is installed: as processes beside a real API server with the chart's policies and
// webhook, three replicas on PostgreSQL or one on SQLite. They are started at once, killed, rotated and cut off.
package processes

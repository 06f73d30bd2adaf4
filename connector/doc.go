// Package connector is the gRPC front desk for health events: it says who is calling and about which node they may speak, and
// hands what may pass to the spool or the sinks.
//
// One call goes through these steps, each in a file of its own:
//
//	door.go      only the methods that this desk knows get in, on unary calls and streams alike; a panic ends one call
//	conn.go      what is known of the connection: its bucket of failed tokens, the peer's user on a Unix socket
//	identify.go  header, review, liveness: what is known of the caller (packages tokenreview, liveness)
//	desk.go      decide, apply, stamp (package nodebinding), then hand on
//	answer.go    what the caller is told; one function turns an outcome into a status
//	intake.go    where an accepted batch goes: straight to the sinks, or to the spool
//
// Around it: Server runs either role with its limits, UnixSocket is the socket file, SelfTest tries the token reviews before
// anybody depends on them, Metrics and Recent say what has been refused and to whom.
//
// A token is held by nothing here beyond the call that brought it, and appears in no log, metric, answer or debug page.
package connector

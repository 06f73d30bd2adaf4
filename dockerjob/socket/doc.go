// Package socket is where the users of a machine submit jobs: HTTP and JSON on a Unix socket. Who the submitter is comes from the
// kernel alone, which tells the user of the process that connected (SO_PEERCRED) as of the moment when it did. Nothing in a
// request says who asks, and the process's id is never used: it may belong to another process by the time that it is looked at.
//
// Users see jobs. The rows and proofs that stand behind them are internal and never leave by this door.
package socket

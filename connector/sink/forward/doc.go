// Package forward is the sink that hands batches to another connector: to one of the deployment role over TLS, or to
// whatever speaks the same protocol on a Unix socket of this machine.
//
// The connector speaks for its own node there, with its own token, so that it carries batches of node-local callers alone:
// one that may name other nodes has to go to the other side itself. A token is never sent in clear text over TCP, because
// there is no way to connect so.
//
// # Keys
//
// The other side knows a repeated batch by the idempotency key and by whose token it came with, which is ours for all
// publishers. Their own keys are therefore not passed on as they are, or one publisher could use another's key up and have its events
// dropped. The key that is sent is a digest of the publisher's pod and its key, so that a publisher's repetition stays one; for a publisher
// that is not verified, or gave no key, it is a digest of the batch, so that only our own repetitions are.
package forward

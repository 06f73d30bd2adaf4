// Package nodebinding decides who may report health events about which node. A report leads to a cordon, a drain or a
// reboot, so the answer is a security decision; it is therefore made here, from values alone, without a client, a clock, a
// logger or a message type (seed: Authentication Configuration, "The per-caller rule").
//
// A call goes through three functions, in this order:
//
//	token, credential := nodebinding.ReadHeader(md["authorization"])   // what the caller presents
//	decision := nodebinding.Decide(rules, evidence)                    // which scope that is worth
//	outcome := nodebinding.Apply(decision, mode, batch)                // whether the batch passes, and blank names
//
// Between the first and the second the token is reviewed, if there is one to review. The outcome says everything that is
// left to do: the status to answer with and what to count. A batch passes as a whole or is refused as a whole, and nothing
// is stamped before all of it has passed. A name is compared byte for byte; only the empty name counts as blank. A name
// that is not blank is never changed.
//
// The zero value of every type here refuses. The three functions allocate nothing.
package nodebinding

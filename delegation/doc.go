// Package delegation says what stands between a workload and the person it acts for: the submission (who submitted this
// object) and the row (this pod, or this container, belongs to that submission). A row is internal state and has no public
// API of its own (seed: Credential Propagation, "Workload delegation rows are internal auth state").
//
// Here are the records, their deterministic names, the proof that a Docker workload presents, and the state machines as
// functions from a record to a record. They read no clock: time comes in. Store is what keeps the records; sqlite and
// postgres are the two that there are, and delegationtest holds both to the same behaviour.
//
//	submission   (none) -> CONFIRMED -> CLOSED               closed first, revoked then or at once; never open again
//	row          (none) -> PENDING -> ACTIVE -> REVOKED      or born in any of the three; REVOKED is final
//
// Whether a row has expired is computed from its ExpiresAt and stored nowhere. The submitter stands in the submission
// alone: a row by itself names nobody.
package delegation

// Package conditions decides what a batch of health events changes about one node: which node conditions, which Events, and
// what is refused. It decides from values alone, without a client, a clock or a logger.
//
//	plan := conditions.Decide(rules, node.Status.Conditions, events, now)
//
// Healthy and fatal events set a condition whose type is the check's name. It is True while a fault is known, and its
// message has one entry for each: the codes, the entities, the text, and the recommended action,
//
//	ErrorCode:79 GPU:0 the GPU fell off the bus Recommended Action=RESTART_BM
//
// joined by ";". The message is all that is known about the faults, and is read again at the next event, so that what a
// publisher writes into an event must not look like more than it is: in every string ";" and control characters are replaced, and the words
// that Parse looks for are escaped. When the message would be longer than 1024 bytes, whole entries are left out at the end
// and named by digests instead, so that their faults can still be cleared one by one and the condition does not say that
// all is well too early.
package conditions

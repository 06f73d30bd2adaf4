// Package spool is the socket role's durable queue. A batch is acknowledged to its publisher when it is on the disk; from
// then on neither an outage of a sink, nor a rollout, nor kill -9 loses it.
//
//	s, err := spool.Open(spool.Options{Directory: dir, Bytes: limit, Sinks: sinks, Decide: decide, NodeUID: uid})
//	err = s.Append(ctx, batch) // returns when the batch is durable
//	err = s.Run(ctx)           // delivers until ctx is cancelled
//
// # On the disk
//
// Batches are appended to segments, files named by a number that only grows. Many concurrent appends share one fsync. A
// segment starts with a random word that also starts each of its records, so that nobody who chooses the content of an
// event can make it look like a record: after a damaged record the next whole one is looked for. Each record has its
// length, a CRC32C, the UID of the node it was accepted on, the verified caller and the scope; when it is read, all that
// is checked, and the caller of Open decides again whether the batch may go on. A record that fails is put aside
// (quarantined), counted and never delivered.
//
// # Delivery
//
// Every sink has its own progress, so that one that is down holds up no other and nothing is delivered twice to those that
// work. The alternative, one mark for a record when all sinks have it, would after a restart repeat old faults to sinks that
// have since seen them cleared. Progress is per publisher, by username, as a restarted pod goes on with what its
// predecessor reported; all callers without a token are one publisher. A publisher's batches are delivered in order. After an error that
// may pass, its batches wait with growing pauses while those of others go on. A batch on which a sink fails again and again, as
// on one that the other side cannot digest, is put aside for that sink in the end, so that it does not hold up its publisher's
// others for ever. It is never dropped: while there is no room to put it aside it goes on being offered.
//
// Progress is written beside a segment (a journal of 12 bytes a delivery) without fsync: it survives the process and not a
// power cut, after which the last deliveries are repeated. A segment is removed when every sink is done with it, so a batch
// that a sink never takes holds its segment, and with it some of the bound.
package spool

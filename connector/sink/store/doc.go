// Package store is the sink that keeps every event in a SQL table: SQLite by default, PostgreSQL where several replicas of
// the deployment role share one table.
//
// A batch is stored as a whole or not at all, one row an event with the identity of its publisher. A batch that is offered
// twice is stored once, by the publisher's verified pod UID, the call's idempotency key and the event's index. Without a
// verified pod nothing is taken for a repetition, since a key alone proves nothing.
//
// The columns are for looking things up: long texts are cut in them, and PostgreSQL's refusal of the zero character is
// avoided. The column "event" holds the event as it came.
package store

// Package containers tests the Docker backend with a real Engine and a real exchange: what a job's container makes of the proof that it
// finds, and what others make of it. Where no Engine can be started the tests are skipped, and say so.
package containers

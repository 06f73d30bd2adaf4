// Package dockerjob is the managed backend for one machine: it runs jobs as containers of a Docker Engine and gives each a
// workload identity, as the seed asks ("Docker uses a dedicated controller-managed volume containing a Docker workload proof
// token"). A container gets a proof in a volume of its own, the exchange knows the proof's hash in a row, and the row lives
// as long as the container runs.
//
// Backend keeps the order in which that happens, so that whoever ends it at any moment leaves nothing usable behind: the row
// is there before the proof is, the proof before the container, and the row counts only once the container has started. What
// stands on the Engine is compared with the rows at every start. Labels say what to clean up and never what to believe: a
// row is found by the container's id, which it holds.
//
// Engine is a thin adapter over the Engine's API, jobspec says what may be asked for.
package dockerjob

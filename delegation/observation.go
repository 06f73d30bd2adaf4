package delegation

import "time"

// Observation is how a submission's object was seen by a read under policies that were in order.
type Observation struct {
	// Generation is its metadata.generation, which the API server counts from one with every change of its spec; zero is none.
	Generation int64
	// Since is since when, without a break, the policies had guarded the object when it was read.
	Since time.Time
}

// Equal says whether two observations are the same, as a store keeps them.
func (o Observation) Equal(other Observation) bool {
	return o.Generation == other.Generation && Moment(o.Since).Equal(Moment(other.Since))
}

// Explains says whether nobody can have changed an object past the policies between two observations: they have guarded it since before
// the first, or it is of the same generation. An object without a generation may have been changed at any time.
func (o Observation) Explains(later Observation) bool {
	return !o.Since.Before(Moment(later.Since)) || o.Generation != 0 && o.Generation == later.Generation
}

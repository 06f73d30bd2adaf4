package dockerjob

import "io"

// SetAt has f called after each step of a submission.
func (b *Backend) SetAt(f func(Step) error) { b.at = f }

// SetRandom draws proofs and names from r.
func (b *Backend) SetRandom(r io.Reader) { b.random = r }

// ErrForeignVolume is errForeignVolume.
var ErrForeignVolume = errForeignVolume

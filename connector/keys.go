package connector

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync/atomic"
)

// keys makes idempotency keys: a random word for the process, and a number.
type keys struct {
	word string
	last atomic.Uint64
}

func newKeys() *keys {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	return &keys{word: hex.EncodeToString(random[:]) + "-"}
}

// next is a key that nobody else has. It costs one allocation.
func (k *keys) next() string {
	var buffer [48]byte
	return string(strconv.AppendUint(append(buffer[:0], k.word...), k.last.Add(1), 36))
}

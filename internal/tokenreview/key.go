package tokenreview

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
)

// key is a token as the cache knows it.
type key [sha256.Size]byte

// keyer hashes tokens under a secret of this process, so that a dump of the cache cannot be searched for known tokens. The
// audience and the reviewer are part of the secret: the same token is another entry where another question was asked.
type keyer struct {
	secret  key
	buffers sync.Pool
}

func newKeyer(audience, reviewer string) *keyer {
	var random key
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program rather than return an error
	h := sha256.New()
	for _, part := range []string{string(random[:]), audience, reviewer} {
		sum := sha256.Sum256([]byte(part))
		_, _ = h.Write(sum[:])
	}
	k := &keyer{buffers: sync.Pool{New: func() any { b := make([]byte, 0, maxToken+sha256.Size); return &b }}}
	h.Sum(k.secret[:0])
	return k
}

// of returns a token's key. It allocates nothing, and wipes what it copied.
func (k *keyer) of(token string) key {
	buffer := k.buffers.Get().(*[]byte)
	b := append((*buffer)[:0], k.secret[:]...)
	b = append(b, token...)
	sum := sha256.Sum256(b)
	clear(b)
	k.buffers.Put(buffer)
	return sum
}

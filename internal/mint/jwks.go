package mint

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Rendered is a JWK set as it is served.
type Rendered struct {
	Body []byte
	// ETag is the quoted entity tag of Body.
	ETag string
}

// JWKS renders keys as a JWK set (RFC 7517): public members, with use, alg and kid. PublicKey has no room for a private key; each
// key is checked all the same, for a set that shows one cannot be taken back.
func JWKS(keys []PublicKey) (Rendered, error) {
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, 0, len(keys))}
	for _, k := range keys {
		jwk := jose.JSONWebKey{Key: k.Key, KeyID: k.ID, Algorithm: string(k.Alg), Use: "sig"}
		if !jwk.Valid() || !jwk.IsPublic() {
			return Rendered{}, fmt.Errorf("render the keys: %w", ErrKeyKind)
		}
		set.Keys = append(set.Keys, jwk)
	}
	body, err := json.Marshal(set)
	if err != nil {
		return Rendered{}, fmt.Errorf("render the keys: %w", err)
	}
	sum := sha256.Sum256(body)
	return Rendered{Body: body, ETag: `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`}, nil
}

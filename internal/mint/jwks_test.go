package mint_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// TestJ1J2PublicMembersOnly lists every member of every kind of key as it is served.
func TestJ1J2PublicMembersOnly(t *testing.T) {
	t.Parallel()
	keys := []mint.PublicKey{generate(t, mint.ES256).Public(), generate(t, mint.RS256).Public(), generate(t, mint.EdDSA).Public()}
	got, err := mint.JWKS(keys)
	if err != nil {
		t.Fatal(err)
	}
	var set struct {
		Keys []map[string]string `json:"keys"`
	}
	if err := json.Unmarshal(got.Body, &set); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"alg", "crv", "kid", "kty", "use", "x", "y"}, {"alg", "e", "kid", "kty", "n", "use"}, {"alg", "crv", "kid", "kty", "use", "x"}}
	for i, k := range set.Keys {
		members := map[string]bool{}
		for _, name := range want[i] {
			members[name] = true
		}
		for name := range k {
			if !members[name] {
				t.Errorf("key %d has the member %q", i, name)
			}
			delete(members, name)
		}
		if len(members) > 0 || k["use"] != "sig" || k["alg"] != string(keys[i].Alg) || k["kid"] != keys[i].ID {
			t.Errorf("key %d is %v, without %v", i, k, members)
		}
	}
}

func TestJ3ETags(t *testing.T) {
	t.Parallel()
	a, b := generate(t, mint.EdDSA).Public(), generate(t, mint.EdDSA).Public()
	render := func(keys ...mint.PublicKey) mint.Rendered {
		r, err := mint.JWKS(keys)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if diff := cmp.Diff(render(a, b), render(a, b)); diff != "" {
		t.Errorf("the same keys render differently:\n%s", diff)
	}
	if tag := render(a).ETag; tag == render(b).ETag || tag[0] != '"' || tag[len(tag)-1] != '"' {
		t.Errorf("entity tag %s", tag)
	}
	if got := string(render().Body); got != `{"keys":[]}` {
		t.Errorf("no keys render as %s", got)
	}
}

func TestOnlyPublicKeysRender(t *testing.T) {
	t.Parallel()
	text, err := generate(t, mint.ES256).PEM()
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]mint.PublicKey{
		"a private one": {ID: "a", Alg: mint.ES256, Key: private(t, text)}, "a symmetric one": {ID: "a", Alg: mint.ES256, Key: []byte("0123456789abcdef")}, "none": {},
	} {
		if got, err := mint.JWKS([]mint.PublicKey{key}); !errors.Is(err, mint.ErrKeyKind) || got.Body != nil {
			t.Errorf("%s: rendered as %s, %v", name, got.Body, err)
		}
	}
}

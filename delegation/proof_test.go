package delegation_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation"
)

const (
	goldenName = "job-f3eadcf4fb3d1d9d1ef82cb40ff41b6b4b9369c73dffe155"
	goldenHash = "v1:sha256:Yw3NKWbEM2aRElRIu7JbT_QSpJxzLbLIq8G4WBvXEN0"
)

// goldenSecret is 00 01 .. 1f.
func goldenSecret() (s delegation.Secret) {
	for i := range s {
		s[i] = byte(i)
	}
	return s
}

func goldenToken() string {
	secret := goldenSecret()
	enc := base64.RawURLEncoding
	return "nmp_obo_v1." + enc.EncodeToString([]byte(goldenName)) + "." + enc.EncodeToString(secret[:])
}

func TestTheProofIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	p, err := delegation.ParseProof(goldenToken())
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != goldenName || p.Hash() != goldenHash || !p.Matches(goldenHash) || p.Token() != goldenToken() {
		t.Errorf("proof of %q with hash %s, want %q with %s", p.Name, p.Hash(), goldenName, goldenHash)
	}
	again, err := delegation.NewProof(goldenName, goldenSecret())
	if err != nil || again != p {
		t.Errorf("the proof that is made differs from the one that is read: %v", err)
	}
}

func TestProofsHaveOneSpelling(t *testing.T) {
	t.Parallel()
	good := goldenToken()
	parts := strings.Split(good, ".")
	name, secret := parts[1], parts[2]
	enc := base64.RawURLEncoding
	for what, token := range map[string]string{
		"nothing":                       "",
		"G5: a newline at the end":      good + "\n",
		"G5: a newline inside":          good[:len(good)-2] + "\n" + good[len(good)-2:],
		"a newline in the name":         "nmp_obo_v1." + name[:4] + "\r\n" + name[4:] + "." + secret,
		"a space in front":              " " + good,
		"G6: padding":                   good + "=",
		"G6: the other alphabet":        "nmp_obo_v1." + name + "." + strings.Repeat("+/", 21) + "w",
		"spare bits at the end":         good[:len(good)-1] + "9",
		"another version":               strings.Replace(good, "v1", "v2", 1),
		"upper case":                    strings.Replace(good, "nmp", "NMP", 1),
		"a fourth part":                 good + ".x",
		"an empty fourth part":          good + ".",
		"two parts":                     "nmp_obo_v1." + secret,
		"a short secret":                "nmp_obo_v1." + name + "." + enc.EncodeToString(make([]byte, 31)),
		"a long secret":                 "nmp_obo_v1." + name + "." + enc.EncodeToString(make([]byte, 33)),
		"a secret of zeros":             "nmp_obo_v1." + name + "." + enc.EncodeToString(make([]byte, 32)),
		"a name that is none":           "nmp_obo_v1." + enc.EncodeToString([]byte("job-1")) + "." + secret,
		"an SQL name":                   "nmp_obo_v1." + enc.EncodeToString([]byte("' OR 1=1 --")) + "." + secret,
		"an empty name":                 "nmp_obo_v1.." + secret,
		"B5: a JWT":                     "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln",
		"F13: nothing but dots":         strings.Repeat(".", 100_000),
		"the hash instead of the proof": goldenHash,
	} {
		if p, err := delegation.ParseProof(token); !errors.Is(err, delegation.ErrProofMalformed) || p != (delegation.Proof{}) {
			t.Errorf("%s: got %v, %v", what, p, err)
		}
	}
}

func TestAProofMatchesItsOwnHashAlone(t *testing.T) {
	t.Parallel()
	other := goldenSecret()
	other[31] ^= 1
	p, err := delegation.ParseProof(goldenToken())
	if err != nil {
		t.Fatal(err)
	}
	dummy := "v1:sha256:" + strings.Repeat("A", 43)
	for what, hash := range map[string]string{
		"G2: none, as of an unknown row": "", "G3: another row's": string(other.Hash()), "the dummy itself": dummy, "no prefix": goldenHash[10:],
		"another version": "v2" + goldenHash[2:], "upper case": "V1" + goldenHash[2:], "padded": goldenHash + "=", "cut": goldenHash[:40],
		"spare bits": goldenHash[:len(goldenHash)-1] + "1", "a newline": goldenHash[:52] + "\n",
	} {
		if p.Matches(delegation.ProofHash(hash)) {
			t.Errorf("%s: matches %q", what, hash)
		}
	}
	if (delegation.Proof{}).Matches((delegation.Secret{}).Hash()) {
		t.Error("the zero proof matches the hash of the zero secret")
	}
	if delegation.ProofHash("").Valid() || !delegation.ProofHash(goldenHash).Valid() {
		t.Error("validity of hashes")
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	p, err := delegation.ParseProof(goldenToken())
	if err != nil {
		t.Fatal(err)
	}
	secret := goldenSecret()
	var all strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%X"} {
		fmt.Fprintf(&all, verb+verb+verb, p, secret, &struct {
			P *delegation.Proof
			S delegation.Secret
		}{&p, secret})
	}
	text, err := json.Marshal(map[string]any{"p": p, "s": secret})
	if err != nil {
		t.Fatal(err)
	}
	all.Write(text)
	for _, leak := range []string{"AAECAwQ", "000102030405", "0001020304", "[0 1 2", "0x0, 0x1", "1 2 3 4"} {
		if strings.Contains(all.String(), leak) {
			t.Errorf("printed the secret as %q in %s", leak, all.String())
		}
	}
}

// FuzzParseProof: what is accepted is spelled as it is printed, and matches its own hash and no other.
func FuzzParseProof(f *testing.F) {
	f.Add(goldenToken())
	f.Add("nmp_obo_v1..")
	f.Add(strings.Repeat(".", 100))
	f.Fuzz(func(t *testing.T, token string) {
		p, err := delegation.ParseProof(token)
		if err != nil {
			return
		}
		if p.Token() != token || !delegation.ValidName(p.Name) || !p.Matches(p.Hash()) || p.Matches("") {
			t.Errorf("accepted %q as %q", token, p.Token())
		}
	})
}

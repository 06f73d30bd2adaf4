package tokenreview

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadTellsWhatATokenSaysOfItself(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		token string
		want  claims
	}{
		"a pod's token": {
			tokenFor(minted{}), claims{audiences: []string{audience}, expiry: epoch().Add(time.Hour), podUID: "pod-1"},
		},
		"one audience as a string": {
			tokenFor(minted{aud: audience}), claims{audiences: []string{audience}, expiry: epoch().Add(time.Hour), podUID: "pod-1"},
		},
		"two audiences": {
			tokenFor(minted{aud: []string{"api", audience}}),
			claims{audiences: []string{"api", audience}, expiry: epoch().Add(time.Hour), podUID: "pod-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := read(tc.token)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(claims{})); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

// notTokens are words that no service account token can be: T9, T15, T24, T26, and what crashed others.
func notTokens() map[string]string {
	good := tokenFor(minted{})
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	with := func(json string) string {
		return head + "." + base64.RawURLEncoding.EncodeToString([]byte(json)) + "." + signature
	}
	return map[string]string{
		"empty":                                 "",
		"a word":                                "garbage",
		"T9 a leading space":                    " " + good,
		"T9 a space alone":                      " x",
		"a trailing space":                      good + " ",
		"T26 trailing junk":                     good + ".x",
		"T26 a newline inside":                  head + "." + body + "." + signature[:10] + "\n" + signature[10:],
		"T26 a carriage return inside":          head + "\r." + body + "." + signature,
		"T26 spare bits at the end":             head + "." + body + "." + spare(signature),
		"T26 padding":                           head + "." + body + "." + signature + "=",
		"the standard alphabet":                 head + "." + body + "." + signature[:len(signature)-2] + "++",
		"two parts":                             head + "." + body,
		"an empty signature":                    head + "." + body + ".",
		"an empty header":                       "." + body + "." + signature,
		"nothing but dots":                      strings.Repeat(".", 1<<12),
		"a NUL":                                 good + "\x00",
		"not ASCII":                             good + "é",
		"longer than 8 KiB":                     good + strings.Repeat("A", 8<<10),
		"a payload that is no JSON":             with("x"),
		"a payload that is a list":              with("[]"),
		"a payload with something after":        with(`{"aud":"connector.example","exp":1800003600} {}`),
		"a claim twice":                         with(`{"aud":"connector.example","exp":1800003600,"exp":1900003600}`),
		"no audience":                           with(`{"exp":1800003600}`),
		"a number for an audience":              with(`{"aud":1,"exp":1800003600}`),
		"an audience in a list in a list":       with(`{"aud":[["connector.example"]],"exp":1800003600}`),
		"T15 no expiry":                         with(`{"aud":["connector.example"]}`),
		"an expiry in another case":             with(`{"aud":["connector.example"],"EXP":1800003600}`),
		"an expiry that is a text":              with(`{"aud":["connector.example"],"exp":"1800003600"}`),
		"an expiry before time began":           with(`{"aud":["connector.example"],"exp":-1}`),
		"an expiry after it will end":           with(`{"aud":["connector.example"],"exp":1e300}`),
		"a pod UID that is a list of pod UIDs":  with(`{"aud":["connector.example"],"exp":1800003600,"kubernetes.io":{"pod":{"uid":["a"]}}}`),
		"a header that is not canonical base64": spare(head) + "." + body + "." + signature,
	}
}

// spare sets a bit at the end of a base64 text that decoding throws away.
func spare(text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	if len(text)%4 == 0 {
		panic("no spare bits")
	}
	last := strings.IndexByte(alphabet, text[len(text)-1])
	return text[:len(text)-1] + string(alphabet[last^1])
}

func TestReadRefusesWhatCannotBeAToken(t *testing.T) {
	t.Parallel()
	for name, word := range notTokens() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := read(word); ReasonOf(err) != TokenInvalid {
				t.Errorf("read = %+v, %v; want %s", got, err, TokenInvalid)
			}
		})
	}
}

// FuzzRead looks for a second spelling: what is taken has one spelling only, so no two words decode to the same bytes.
func FuzzRead(f *testing.F) {
	f.Add(tokenFor(minted{}))
	for _, word := range notTokens() {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if _, err := read(word); err != nil {
			if strings.Contains(err.Error(), word) && len(word) > 40 {
				t.Errorf("the error quotes the word")
			}
			return
		}
		var again []string
		for p := range strings.SplitSeq(word, ".") {
			b, err := base64.RawURLEncoding.DecodeString(p)
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, base64.RawURLEncoding.EncodeToString(b))
		}
		if got := strings.Join(again, "."); got != word || len(word) > maxToken {
			t.Errorf("another spelling of %q was taken", got)
		}
	})
}

func TestScrubbed(t *testing.T) {
	t.Parallel()
	token := tokenFor(minted{mark: "secret"})
	parts := strings.Split(token, ".")
	for name, tc := range map[string]struct{ text, want string }{
		"a plain text stays":      {"token audiences [\"x\"] is invalid", "token audiences [\"x\"] is invalid"},
		"the token goes":          {"cannot parse " + token + "!", "cannot parse [token]!"},
		"each part goes":          {parts[0] + " " + parts[1] + " " + parts[2], "[token] [token] [token]"},
		"lines become one":        {"a\nb\r\tc", "a b  c"},
		"long texts are cut":      {strings.Repeat("x", 1000), strings.Repeat("x", 300) + "..."},
		"broken text is repaired": {"a\xffb", "a?b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := scrubbed(tc.text, token); got != tc.want {
				t.Errorf("scrubbed = %q, want %q", got, tc.want)
			}
		})
	}
}

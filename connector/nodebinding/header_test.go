package nodebinding_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

func TestReadHeader(t *testing.T) {
	t.Parallel()
	const (
		none, bad   = nodebinding.CredentialAbsent, nodebinding.CredentialMalformed
		unfit, good = nodebinding.CredentialUnusable, nodebinding.CredentialPresented
		token       = "eyJh.eyJp.c2ln"
	)
	longest := "eyJh.eyJp." + strings.Repeat("A", 8<<10-10)
	for name, tc := range map[string]struct {
		values []string
		want   nodebinding.Credential
	}{
		"no header":                           {nil, none},
		"no values":                           {[]string{}, none},
		"a token":                             {[]string{"Bearer " + token}, good},
		"the scheme in lower case":            {[]string{"bearer " + token}, good},
		"the scheme in any case":              {[]string{"bEARER " + token}, good},
		"two values":                          {[]string{"Bearer " + token, "Bearer " + token}, bad},
		"two values, one empty":               {[]string{"", "Bearer " + token}, bad},
		"an empty value":                      {[]string{""}, bad},
		"the scheme alone":                    {[]string{"Bearer"}, bad},
		"no credential":                       {[]string{"Bearer "}, bad},
		"two spaces":                          {[]string{"Bearer  " + token}, bad},
		"a space before the scheme":           {[]string{" Bearer " + token}, bad},
		"a trailing space":                    {[]string{"Bearer " + token + " "}, bad},
		"two words":                           {[]string{"Bearer " + token + " x"}, bad},
		"values joined by a comma":            {[]string{"Bearer " + token + ", Bearer " + token}, bad},
		"a tab for the space":                 {[]string{"Bearer\t" + token}, bad},
		"a tab within":                        {[]string{"Bearer eyJh.\teyJp.c2ln"}, bad},
		"a newline at the end":                {[]string{"Bearer " + token + "\n"}, bad},
		"a newline within":                    {[]string{"Bearer eyJh.ey\nJp.c2ln"}, bad},
		"a zero byte":                         {[]string{"Bearer " + token + "\x00"}, bad},
		"a byte that deletes":                 {[]string{"Bearer " + token + "\x7f"}, bad},
		"a letter beyond ASCII":               {[]string{"Bearer eyJh.eyJp.c2lñ"}, bad},
		"a no-break space":                    {[]string{"Bearer " + token + "\u00a0"}, bad},
		"another scheme":                      {[]string{"Basic dXNlcjpwYXNz"}, bad},
		"no scheme":                           {[]string{token}, bad},
		"a scheme that starts alike":          {[]string{"Bearerx " + token}, bad},
		"a long word with a space":            {[]string{"Bearer " + longest + " x"}, bad},
		"an opaque word":                      {[]string{"Bearer abcdef"}, unfit},
		"two parts":                           {[]string{"Bearer eyJh.eyJp"}, unfit},
		"four parts":                          {[]string{"Bearer " + token + ".c2ln"}, unfit},
		"five parts, as an encrypted token":   {[]string{"Bearer a.b.c.d.e"}, unfit},
		"no header part":                      {[]string{"Bearer .eyJp.c2ln"}, unfit},
		"no payload":                          {[]string{"Bearer eyJh..c2ln"}, unfit},
		"no signature":                        {[]string{"Bearer eyJh.eyJp."}, unfit},
		"dots alone":                          {[]string{"Bearer " + strings.Repeat(".", 4096)}, unfit},
		"padding":                             {[]string{"Bearer eyJh.eyJp.c2k="}, unfit},
		"the other alphabet":                  {[]string{"Bearer eyJh.eyJp.c2+/"}, unfit},
		"a joined second value without space": {[]string{"Bearer " + token + ",x"}, unfit},
		"a part that is no whole byte":        {[]string{"Bearer eyJh.eyJp.c2lna"}, unfit},
		"two letters":                         {[]string{"Bearer eyJh.eyJp.cw"}, good},
		"two letters with stray bits":         {[]string{"Bearer eyJh.eyJp.cx"}, unfit},
		"three letters":                       {[]string{"Bearer eyJh.eyJp.c2k"}, good},
		"three letters with stray bits":       {[]string{"Bearer eyJh.eyJp.c2l"}, unfit},
		"the longest token":                   {[]string{"Bearer " + longest}, good},
		"a token that is too long":            {[]string{"Bearer " + longest + "AAAA"}, unfit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, credential := nodebinding.ReadHeader(tc.values)
			if credential != tc.want {
				t.Errorf("credential %d, want %d", credential, tc.want)
			}
			if (credential == good) != (got.Reveal() != "") {
				t.Errorf("credential %d with a token of %d bytes", credential, len(got.Reveal()))
			}
		})
	}
}

func TestTokensDoNotShow(t *testing.T) {
	t.Parallel()
	const secret = "eyJh.eyJp.c2ln"
	token, _ := nodebinding.ReadHeader([]string{"Bearer " + secret})
	if token.Reveal() != secret {
		t.Fatalf("the token is %q", token.Reveal())
	}
	asJSON, err := json.Marshal(map[string]any{"token": token})
	if err != nil {
		t.Fatal(err)
	}
	held := struct{ hidden nodebinding.Token }{token}
	for _, text := range []string{
		fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s %q %x", token, token, token, token, token, token), fmt.Sprintf("%v", &token),
		fmt.Sprintf("%+v", struct{ T nodebinding.Token }{token}), fmt.Sprintf("%v %+v %#v", held, held, held), string(asJSON),
	} {
		if strings.Contains(text, "eyJ") || strings.Contains(text, fmt.Sprintf("%x", "eyJ")) {
			t.Errorf("the token shows in %q", text)
		}
	}
}

// FuzzReadHeader compares the gate with the standard library's strict decoder: whatever passes is one word with exactly
// one spelling.
func FuzzReadHeader(f *testing.F) {
	for _, seed := range []string{"", "Bearer ", "Bearer eyJh.eyJp.c2ln", "bearer  a.b.c", "Bearer a.b", "Bearer eyJh.eyJp.cx", "Bearer \xff", "Basic x"} {
		f.Add(seed)
	}
	strict := base64.RawURLEncoding.Strict()
	f.Fuzz(func(t *testing.T, value string) {
		token, credential := nodebinding.ReadHeader([]string{value})
		word := ""
		if len(value) > 7 && strings.EqualFold(value[:7], "bearer ") {
			word = value[7:]
		}
		clean := word != "" && !strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r >= 0x7f })
		parts := strings.Split(word, ".")
		usable := clean && len(parts) == 3 && len(word) <= 8192
		for _, p := range parts {
			_, err := strict.DecodeString(p)
			usable = usable && p != "" && err == nil
		}
		want := nodebinding.CredentialMalformed
		if usable {
			want = nodebinding.CredentialPresented
		} else if clean {
			want = nodebinding.CredentialUnusable
		}
		if credential != want {
			t.Fatalf("%q is %d, want %d", value, credential, want)
		}
		if usable && token.Reveal() != word || !usable && token.Reveal() != "" {
			t.Errorf("%q gives another word", value)
		}
	})
}

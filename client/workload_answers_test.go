package client_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client"
)

func TestAnswersOfTheTokenEndpoint(t *testing.T) {
	t.Parallel()
	good := granted(1, 300).body
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, tc := range map[string]struct {
		answer answer
		want   string // of the error; "" accepts
	}{
		"as it should be":             {answer{body: good}, ""},
		"a scope":                     {answer{body: with(`"scope":null`, `"scope":"openid email"`)}, ""},
		"no scope at all":             {answer{body: with(`,"scope":null`, ``)}, ""},
		"bearer in small letters":     {answer{body: with(`"Bearer"`, `"bearer"`)}, ""},
		"members that nobody knows":   {answer{body: with(`{`, `{"x":{"y":[1]},`)}, ""},
		"a scope that is a list":      {answer{body: with(`"scope":null`, `"scope":[]`)}, "not the JSON of a token"},
		"truncated":                   {answer{body: good[:len(good)-20]}, "not the JSON of a token"},
		"two documents":               {answer{body: good + good}, "not the JSON of a token"},
		"a login page":                {answer{body: "<html>" + tokenMarker}, "not the JSON of a token"},
		"nothing":                     {answer{}, "not the JSON of a token"},
		"a member twice":              {answer{body: with(`{`, `{"access_token":"other",`)}, "not the JSON of a token"},
		"a member in other letters":   {answer{body: with(`"access_token"`, `"Access_Token"`)}, "no token that fits into a header"},
		"no token":                    {answer{body: with(accessToken(1), ``)}, "no token that fits into a header"},
		"a null token":                {answer{body: with(`"`+accessToken(1)+`"`, `null`)}, "no token that fits into a header"},
		"a line break in the token":   {answer{body: with(accessToken(1), `a\r\nX-Admin: 1`)}, "no token that fits into a header"},
		"a token too long":            {answer{body: with(accessToken(1), strings.Repeat("a", 8<<10+1))}, "no token that fits into a header"},
		"another token type":          {answer{body: with(`"Bearer"`, `"DPoP"`)}, "the token's type is not Bearer"},
		"no token type":               {answer{body: with(`"token_type":"Bearer",`, ``)}, "the token's type is not Bearer"},
		"an id token":                 {answer{body: with(wire.TokenTypeAccess, "urn:ietf:params:oauth:token-type:id_token")}, "the issued token is no access token"},
		"no expiry":                   {answer{body: with(`"expires_in":300,`, ``)}, "expires_in must be positive"},
		"an expiry of zero":           {answer{body: with(`300`, `0`)}, "expires_in must be positive"},
		"a negative expiry":           {answer{body: with(`300`, `-5`)}, "expires_in must be positive"},
		"an expiry that is a string":  {answer{body: with(`300`, `"300"`)}, "not the JSON of a token"},
		"an expiry beyond all bounds": {answer{body: with(`300`, `1e400`)}, "not the JSON of a token"},
		"an expiry of an age":         {answer{body: with(`300`, `9223372036854775807`)}, ""},
		"a huge body":                 {answer{body: strings.Repeat(" ", 1<<20) + good}, "the answer is too long"},
		"a redirect":                  {answer{status: 307, header: map[string]string{"Location": "https://mallory.example/"}}, "answered 307: a redirect, which is not followed"},
		"another client":              {answer{status: 401, body: `{"error":"invalid_client"}`}, "answered 401 invalid_client"},
		"an audience not allowed":     {answer{status: 400, body: `{"error":"invalid_target","error_description":"no\nsuch"}`}, "answered 400 invalid_target: no such"},
		"a description of great size": {answer{status: 400, body: `{"error":"invalid_request","error_description":"` + strings.Repeat("x", 1000) + `"}`}, strings.Repeat("x", 200)},
		"an error that is no JSON":    {answer{status: 404, body: "404 page not found"}, "exchange the subject token: answered 404"},
		"a status that is no success": {answer{status: 204}, "answered 204"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &platform{token: func(int, url.Values) answer { return tc.answer }}
			_, err := token(t, p.workload(t))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && (client.Temporary(err) || strings.Contains(err.Error(), tokenMarker) || len(err.Error()) > 300) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDiscoveryDocuments(t *testing.T) {
	t.Parallel()
	good := (&platform{base: "https://platform.example"}).discovery()
	endpoint := func(at string) string { return strings.Replace(good, "https://platform.example"+wire.PathToken, at, 1) }
	for name, tc := range map[string]struct {
		document, allow, want string
	}{
		"as it should be":               {document: good},
		"the port written out":          {document: endpoint("https://Platform.Example:443/apis/auth/token")},
		"another host":                  {document: endpoint("https://mallory.example/apis/auth/token"), want: `the token endpoint is at "mallory.example:443", not at the base URL's "platform.example:443"`},
		"another port":                  {document: endpoint("https://platform.example:8443/apis/auth/token"), want: "not at the base URL's"},
		"a host that starts the same":   {document: endpoint("https://platform.example.mallory.example/apis/auth/token"), want: "not at the base URL's"},
		"a dot at the end":              {document: endpoint("https://platform.example./apis/auth/token"), want: "not at the base URL's"},
		"the host as a user":            {document: endpoint("https://platform.example@mallory.example/apis/auth/token"), want: "must hold no user"},
		"another host that is allowed":  {document: endpoint("https://tokens.example/apis/auth/token"), allow: "Tokens.example"},
		"that host at a port not named": {document: endpoint("https://tokens.example:8443/apis/auth/token"), allow: "tokens.example", want: "not at the base URL's"},
		"a port that is allowed":        {document: endpoint("https://tokens.example:8443/apis/auth/token"), allow: "tokens.example:8443"},
		"clear text":                    {document: endpoint("http://platform.example:443/apis/auth/token"), want: "the token endpoint must be https"},
		"clear text on loopback":        {document: endpoint("http://127.0.0.1/apis/auth/token"), allow: "127.0.0.1:80", want: "must be https as the base URL is"},
		"a file":                        {document: endpoint("file:///etc/passwd"), want: "the token endpoint names no host"},
		"a path alone":                  {document: endpoint("/apis/auth/token"), want: "the token endpoint names no host"},
		"a query":                       {document: endpoint("https://platform.example/apis/auth/token?x=1"), want: "neither a query"},
		"a fragment":                    {document: endpoint("https://platform.example/apis/auth/token#x"), want: "neither a query"},
		"no endpoint":                   {document: strings.Replace(good, `"https://platform.example`+wire.PathToken+`"`, "null", 1), want: "the token endpoint names no host"},
		"switched off":                  {document: strings.Replace(good, `exchange_enabled":true`, `exchange_enabled":false`, 1), want: client.ErrExchangeOff.Error()},
		"no authentication at all":      {document: `{"auth_enabled":false,"oidc":null}`, want: client.ErrExchangeOff.Error()},
		"the web's client id beside it": {document: strings.Replace(good, `"workload_client_id":"nemo-platform"`, `"workload_client_id":null`, 1)},
		"no client id":                  {document: strings.Replace(strings.Replace(good, `"nemo-platform"`, `null`, 1), `"web"`, `null`, 1), want: "names no client id"},
		"truncated":                     {document: good[:40], want: "no discovery document"},
		"a member twice":                {document: strings.Replace(good, `{"issuer"`, `{"workload_token_endpoint":"https://mallory.example","issuer"`, 1), want: "no discovery document"},
		"no object":                     {document: `[]`, want: "no discovery document"},
		"scopes that are a number":      {document: strings.Replace(good, `"workload_scope":null`, `"workload_scope":7`, 1), want: "no discovery document"},
		"of great size":                 {document: strings.Repeat(" ", 64<<10) + good, want: "the answer is too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &platform{document: tc.document}
			_, err := token(t, p.workload(t, func(o *client.WorkloadOptions) { o.AllowTokenHost = tc.allow }))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			var e *client.ExchangeError
			if err != nil && (!errors.As(err, &e) || e.Step != client.StepDiscovery || e.Temporary() || p.exchanges() != 0) {
				t.Errorf("got %v and %d exchanges", err, p.exchanges())
			}
		})
	}
}

// TestScopesOfTheDiscoveryDocument: a text as this project's exchange writes it, or a list; a request sends words.
func TestScopesOfTheDiscoveryDocument(t *testing.T) {
	t.Parallel()
	good := (&platform{base: "https://platform.example"}).discovery()
	for written, want := range map[string]string{
		`null`: "", `""`: "", `"openid"`: "openid", `"openid email"`: "openid email", `[]`: "", `["openid"]`: "openid", `["openid","email"]`: "openid email",
	} {
		p := &platform{document: strings.Replace(good, `"workload_scope":null`, `"workload_scope":`+written, 1)}
		if _, err := token(t, p.workload(t)); err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if got := p.forms[0].Get("scope"); got != want {
			t.Errorf("%s: the request asks for %q, want %q", written, got, want)
		}
	}
}

func TestTheEnvironment(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env  map[string]string
		want string
	}{
		"a managed job":         {env: map[string]string{wire.EnvSubjectTokenFile: "/t", wire.EnvBaseURL: "https://x"}},
		"an empty tombstone":    {env: map[string]string{wire.EnvSubjectTokenFile: "/t", wire.EnvBaseURL: "https://x", wire.EnvPrincipal: ""}},
		"no job":                {want: client.ErrNoIdentity.Error()},
		"an empty trigger":      {env: map[string]string{wire.EnvSubjectTokenFile: "", wire.EnvPrincipal: "p"}, want: client.ErrNoIdentity.Error()},
		"a principal beside it": {env: map[string]string{wire.EnvSubjectTokenFile: "/t", wire.EnvBaseURL: "https://x", wire.EnvPrincipal: `{"id":"root"}`}, want: "NMP_PRINCIPAL and NMP_WORKLOAD_IDENTITY_TOKEN_FILE contradict each other: unset NMP_PRINCIPAL"},
		"no base URL":           {env: map[string]string{wire.EnvSubjectTokenFile: "/t"}, want: "NMP_BASE_URL is not"},
	} {
		o, err := client.EnvOptions(func(k string) string { return tc.env[k] })
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if err == nil && (o.TokenFile != "/t" || o.BaseURL != "https://x") {
			t.Errorf("%s: got %+v", name, o)
		}
		if (tc.want == client.ErrNoIdentity.Error()) != errors.Is(err, client.ErrNoIdentity) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestWorkloadOptionsThatAreNoGood(t *testing.T) {
	t.Parallel()
	nothing := filepath.Join(t.TempDir(), "ca")
	must(t, os.WriteFile(nothing, []byte("x"), 0o600))
	for name, tc := range map[string]struct {
		o    client.WorkloadOptions
		want string
	}{
		"no file":               {client.WorkloadOptions{BaseURL: "https://x"}, "a token file is needed"},
		"no base":               {client.WorkloadOptions{TokenFile: "/t"}, "a base URL is needed"},
		"clear text":            {client.WorkloadOptions{TokenFile: "/t", BaseURL: "http://platform.example"}, "must be https"},
		"clear text, tricky":    {client.WorkloadOptions{TokenFile: "/t", BaseURL: "http://127.0.0.1.example"}, "must be https"},
		"no scheme":             {client.WorkloadOptions{TokenFile: "/t", BaseURL: "platform.example"}, "names no host"},
		"another scheme":        {client.WorkloadOptions{TokenFile: "/t", BaseURL: "unix://platform.example/s"}, "must be https"},
		"a password":            {client.WorkloadOptions{TokenFile: "/t", BaseURL: "https://u:hunter2@platform.example"}, "must hold no user"},
		"a query":               {client.WorkloadOptions{TokenFile: "/t", BaseURL: "https://x?y"}, "neither a query nor a fragment"},
		"no URL":                {client.WorkloadOptions{TokenFile: "/t", BaseURL: "https://u:hunter2@[::1"}, "is no URL"},
		"no CA in the file":     {client.WorkloadOptions{TokenFile: "/t", BaseURL: "https://x", CAFile: nothing}, "holds no certificate"},
		"no CA file":            {client.WorkloadOptions{TokenFile: "/t", BaseURL: "https://x", CAFile: nothing + "x"}, "read the CA file"},
		"a CA and a transport":  {client.WorkloadOptions{TokenFile: "/t", BaseURL: "https://x", CAFile: nothing, Transport: &platform{}}, "brings its own CA"},
		"a URL as allowed host": {client.WorkloadOptions{TokenFile: "/t", BaseURL: "https://x", AllowTokenHost: "https://y"}, "must be host or host:port"},
		"any host allowed":      {client.WorkloadOptions{TokenFile: "/t", BaseURL: "https://x", AllowTokenHost: "*"}, "must be host or host:port"},
		"a negative patience":   {client.WorkloadOptions{TokenFile: "/t", BaseURL: "https://x", Patience: -1}, "must be positive"},
	} {
		w, err := client.NewWorkload(tc.o)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if err == nil {
			w.Close()
		}
	}
}

func TestSubjectTokenFilesThatAreNoGood(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ content, want string }{
		"empty": {" \r\n\t", "is empty"}, "two tokens": {subjectMarker + "\n" + subjectMarker, "holds a space"},
		"too long": {strings.Repeat("a", 8<<10+1), "longer than any token"}, "log text behind it": {subjectMarker + " started", "holds a space"},
	} {
		p := &platform{}
		_, err := token(t, p.workload(t, func(o *client.WorkloadOptions) { o.TokenFile = subjectFile(t, tc.content) }))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), subjectMarker) || p.exchanges() != 0 {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

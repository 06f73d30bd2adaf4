package grant_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

// ask changes a complete form; "-name" leaves one out.
type ask map[string]string

func (a ask) body() string {
	f := fields()
	for name, value := range a {
		if left, out := strings.CutPrefix(name, "-"); out {
			f.Del(left)
		} else {
			f.Set(name, value)
		}
	}
	return f.Encode()
}

func TestAFormIsRead(t *testing.T) {
	t.Parallel()
	docker := grant.Request{SubjectTokenType: grant.TokenTypeDocker, SubjectToken: "nmp_obo_v1.a.b", Audience: second}
	full := grant.Request{SubjectTokenType: grant.TokenTypeJWT, SubjectToken: "a.b.c", Audience: audience, Scopes: []string{"openid", "email"}}
	bare := full
	bare.Scopes = nil
	for name, tc := range map[string]struct {
		contentType, body string
		want              grant.Request
	}{
		"all of it":                           {form, ask{}.body(), full},
		"A3: with a charset":                  {form + "; charset=utf-8", ask{}.body(), full},
		"A3: in capitals":                     {"Application/X-WWW-Form-URLEncoded", ask{}.body(), full},
		"A6: empty is absent":                 {form, ask{"scope": "", "audience": "", "requested_token_type": ""}.body(), bare},
		"A7: strangers are ignored":           {form, ask{"foo": "bar", "dpop_jkt": ""}.body(), full},
		"B6: no requested type":               {form, ask{"-requested_token_type": ""}.body(), full},
		"C3: no audience means the default":   {form, ask{"-audience": ""}.body(), full},
		"the least there can be":              {form, ask{"-audience": "", "-scope": "", "-requested_token_type": ""}.body(), bare},
		"another audience, Docker's proof":    {form, ask{"audience": second, "scope": "", "subject_token_type": grant.TokenTypeDocker, "subject_token": "nmp_obo_v1.a.b"}.body(), docker},
		"C6: words that are none are dropped": {form, ask{"scope": ` openid  a"b  email openid é \ `}.body(), full},
		"a scope that is too long":            {form, ask{"scope": strings.Repeat("openid ", 1000)}.body(), bare},
		"a token as long as can be":           {form, ask{"subject_token": strings.Repeat("x", grant.MaxSubject)}.body(), with(full, strings.Repeat("x", grant.MaxSubject))},
		"an empty secret is none":             {form, ask{"client_secret": ""}.body(), full},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, refusal := grant.ParseRequest(rules(), tc.contentType, "", []byte(tc.body))
			if refusal != nil {
				t.Fatalf("refused: %+v", *refusal)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("request differs (-want +got):\n%s", diff)
			}
		})
	}
}

func with(q grant.Request, token string) grant.Request {
	q.SubjectToken = token
	return q
}

func TestAFormIsRefused(t *testing.T) {
	t.Parallel()
	off := rules()
	off.Enabled = false
	good := ask{}.body()
	for name, tc := range map[string]struct {
		rules              grant.Rules
		contentType, query string
		body               string
		want               grant.Reason
		status             int
		code               grant.Code
	}{
		"switched off":                          {off, "", "x", "", grant.Disabled, 400, "invalid_request"},
		"the zero rules":                        {grant.Rules{}, form, "", good, grant.Disabled, 400, "invalid_request"},
		"A2: JSON":                              {rules(), "application/json", "", `{}`, grant.ContentType, 400, "invalid_request"},
		"A2: no type":                           {rules(), "", "", good, grant.ContentType, 400, "invalid_request"},
		"A2: multipart":                         {rules(), "multipart/form-data; boundary=x", "", good, grant.ContentType, 400, "invalid_request"},
		"A2: a type that is none":               {rules(), form + "; charset", "", good, grant.ContentType, 400, "invalid_request"},
		"A4: a token in the query":              {rules(), form, "subject_token=x", good, grant.QueryPresent, 400, "invalid_request"},
		"A4: any query":                         {rules(), form, "a", good, grant.QueryPresent, 400, "invalid_request"},
		"A5: grant_type twice":                  {rules(), form, "", good + "&grant_type=" + grant.GrantType, grant.ParameterRepeated, 400, "invalid_request"},
		"A5: subject_token twice":               {rules(), form, "", good + "&subject_token=b", grant.ParameterRepeated, 400, "invalid_request"},
		"A5, C2: audience twice, both allowed":  {rules(), form, "", good + "&audience=" + second, grant.ParameterRepeated, 400, "invalid_request"},
		"A5: an unknown one twice":              {rules(), form, "", good + "&x=1&x=1", grant.ParameterRepeated, 400, "invalid_request"},
		"A5: an empty one twice":                {rules(), form, "", good + "&x=&x=", grant.ParameterRepeated, 400, "invalid_request"},
		"A6: an empty subject token":            {rules(), form, "", ask{"subject_token": ""}.body(), grant.SubjectMissing, 400, "invalid_request"},
		"A8: a broken escape":                   {rules(), form, "", good + "&a=%zz", grant.BodyMalformed, 400, "invalid_request"},
		"A8: a semicolon":                       {rules(), form, "", good + "&a=1;b=2", grant.BodyMalformed, 400, "invalid_request"},
		"A9: a long body":                       {rules(), form, "", good + "&a=" + strings.Repeat("x", grant.MaxBody), grant.BodyTooLong, 400, "invalid_request"},
		"A9: a long subject token":              {rules(), form, "", ask{"subject_token": strings.Repeat("x", grant.MaxSubject+1)}.body(), grant.SubjectTooLong, 400, "invalid_request"},
		"A11: a zero byte":                      {rules(), form, "", good + "&a=%00", grant.BodyMalformed, 400, "invalid_request"},
		"A11: no UTF-8":                         {rules(), form, "", good + "&a=%ff", grant.BodyMalformed, 400, "invalid_request"},
		"A11: a control in a name":              {rules(), form, "", good + "&a%0a=1", grant.BodyMalformed, 400, "invalid_request"},
		"G5: a newline at the token's end":      {rules(), form, "", ask{"subject_token": "a.b.c\n"}.body(), grant.BodyMalformed, 400, "invalid_request"},
		"B1: no grant type":                     {rules(), form, "", ask{"-grant_type": ""}.body(), grant.GrantTypeMissing, 400, "invalid_request"},
		"B1: nothing at all":                    {rules(), form, "", "", grant.GrantTypeMissing, 400, "invalid_request"},
		"B2: another grant":                     {rules(), form, "", ask{"grant_type": "client_credentials"}.body(), grant.GrantTypeUnsupported, 400, "unsupported_grant_type"},
		"B2: in capitals":                       {rules(), form, "", ask{"grant_type": strings.ToUpper(grant.GrantType)}.body(), grant.GrantTypeUnsupported, 400, "unsupported_grant_type"},
		"B3: no subject token":                  {rules(), form, "", ask{"-subject_token": ""}.body(), grant.SubjectMissing, 400, "invalid_request"},
		"B3: no subject token type":             {rules(), form, "", ask{"-subject_token_type": ""}.body(), grant.SubjectTypeUnsupported, 400, "invalid_request"},
		"B4: SAML":                              {rules(), form, "", ask{"subject_token_type": "urn:ietf:params:oauth:token-type:saml2"}.body(), grant.SubjectTypeUnsupported, 400, "invalid_request"},
		"B4: an id token":                       {rules(), form, "", ask{"subject_token_type": "urn:ietf:params:oauth:token-type:id_token"}.body(), grant.SubjectTypeUnsupported, 400, "invalid_request"},
		"B4: one of our own":                    {rules(), form, "", ask{"subject_token_type": grant.TokenTypeAccess}.body(), grant.SubjectTypeUnsupported, 400, "invalid_request"},
		"B7: a refresh token":                   {rules(), form, "", ask{"requested_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}.body(), grant.RequestedTypeUnsupported, 400, "invalid_request"},
		"B7: an id token":                       {rules(), form, "", ask{"requested_token_type": "urn:ietf:params:oauth:token-type:id_token"}.body(), grant.RequestedTypeUnsupported, 400, "invalid_request"},
		"B7: a JWT":                             {rules(), form, "", ask{"requested_token_type": grant.TokenTypeJWT}.body(), grant.RequestedTypeUnsupported, 400, "invalid_request"},
		"B8: an actor's type alone":             {rules(), form, "", ask{"actor_token_type": grant.TokenTypeJWT}.body(), grant.ActorPresent, 400, "invalid_request"},
		"B8: an actor alone":                    {rules(), form, "", ask{"actor_token": "x"}.body(), grant.ActorPresent, 400, "invalid_request"},
		"B9: an actor with its type":            {rules(), form, "", ask{"actor_token": "x", "actor_token_type": grant.TokenTypeJWT}.body(), grant.ActorPresent, 400, "invalid_request"},
		"B9: an empty actor":                    {rules(), form, "", ask{"actor_token": ""}.body(), grant.ActorPresent, 400, "invalid_request"},
		"B9: an empty actor's type":             {rules(), form, "", ask{"actor_token_type": ""}.body(), grant.ActorPresent, 400, "invalid_request"},
		"B10: a secret":                         {rules(), form, "", ask{"client_secret": "s"}.body(), grant.ClientUnknown, 401, "invalid_client"},
		"B10: an assertion":                     {rules(), form, "", ask{"client_assertion": "s"}.body(), grant.ClientUnknown, 401, "invalid_client"},
		"B11: another client":                   {rules(), form, "", ask{"client_id": "other"}.body(), grant.ClientUnknown, 401, "invalid_client"},
		"B11: no client":                        {rules(), form, "", ask{"-client_id": ""}.body(), grant.ClientUnknown, 401, "invalid_client"},
		"C1: an audience that is not ours":      {rules(), form, "", ask{"audience": "https://other"}.body(), grant.AudienceDenied, 400, "invalid_target"},
		"C1: the subject token's own audience":  {rules(), form, "", ask{"audience": client}.body(), grant.AudienceDenied, 400, "invalid_target"},
		"C1: an audience with a space":          {rules(), form, "", ask{"audience": audience + " "}.body(), grant.AudienceDenied, 400, "invalid_target"},
		"C4: a resource":                        {rules(), form, "", ask{"resource": "https://a.example"}.body(), grant.ResourcePresent, 400, "invalid_target"},
		"C4: a resource with a fragment":        {rules(), form, "", ask{"resource": "https://a#f"}.body(), grant.ResourcePresent, 400, "invalid_target"},
		"C4: an empty resource":                 {rules(), form, "", ask{"resource": ""}.body(), grant.ResourcePresent, 400, "invalid_target"},
		"rules without a client, none sent":     {func() grant.Rules { r := rules(); r.ClientID = ""; return r }(), form, "", ask{"-client_id": ""}.body(), grant.ClientUnknown, 401, "invalid_client"},
		"rules without a default, none is sent": {func() grant.Rules { r := rules(); r.DefaultAudience = ""; return r }(), form, "", ask{"-audience": ""}.body(), grant.AudienceDenied, 400, "invalid_target"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, refusal := grant.ParseRequest(tc.rules, tc.contentType, tc.query, []byte(tc.body))
			if refusal == nil {
				t.Fatalf("read as %v", got)
			}
			if refusal.Reason != tc.want || refusal.Code != tc.code || refusal.Status() != tc.status || !cmp.Equal(got, grant.Request{}) {
				t.Errorf("got %v, %d %+v, want %d %s %s", got, refusal.Status(), *refusal, tc.status, tc.code, tc.want)
			}
		})
	}
}

// TestTheFirstFaultIsTold gives a form every pair of faults: the one that stands earlier in the specified order is the answer.
func TestTheFirstFaultIsTold(t *testing.T) {
	t.Parallel()
	order := []struct {
		name, value string
		want        grant.Reason
	}{
		{"grant_type", "password", grant.GrantTypeUnsupported},
		{"client_id", "other", grant.ClientUnknown},
		{"subject_token_type", "saml", grant.SubjectTypeUnsupported},
		{"requested_token_type", "saml", grant.RequestedTypeUnsupported},
		{"actor_token", "", grant.ActorPresent},
		{"resource", "", grant.ResourcePresent},
		{"subject_token", "", grant.SubjectMissing},
		{"audience", "other", grant.AudienceDenied},
	}
	for set := 1; set < 1<<len(order); set++ {
		faults, want := ask{}, grant.Reason("")
		for i, fault := range slices.Backward(order) {
			if set&(1<<i) != 0 {
				faults[fault.name], want = fault.value, fault.want
			}
		}
		_, refusal := grant.ParseRequest(rules(), form, "", []byte(faults.body()))
		if refusal == nil || refusal.Reason != want {
			t.Errorf("faults %v: refusal is %+v, want %s", faults, refusal, want)
		}
	}
}

func TestARequestHidesItsToken(t *testing.T) {
	t.Parallel()
	q := with(request(), "MARKED.TOKEN.x")
	for _, text := range []string{fmt.Sprint(q), fmt.Sprintf("%+v", q), fmt.Sprintf("%#v", q), fmt.Sprintf("%v", &q), fmt.Sprint([]grant.Request{q})} {
		if strings.Contains(text, "MARKED") {
			t.Errorf("the token is printed: %s", text)
		}
	}
}

// FuzzParseRequest: what is read is well formed whatever came, and reading it again gives the same.
func FuzzParseRequest(f *testing.F) {
	f.Add(form, "", ask{}.body())
	f.Add(form, "", ask{"scope": "a b"}.body()+"&x=%zz")
	f.Add("application/json", "a=b", "{}")
	f.Fuzz(func(t *testing.T, contentType, query, body string) {
		q, refusal := grant.ParseRequest(rules(), contentType, query, []byte(body))
		if refusal != nil {
			if refusal.Status() < 400 || refusal.Code == "" || refusal.Code == grant.ServerError || !cmp.Equal(q, grant.Request{}) {
				t.Errorf("refused with %+v", *refusal)
			}
			return
		}
		values, err := url.ParseQuery(body)
		if err != nil || query != "" || !slices.Contains(rules().Audiences, q.Audience) || q.SubjectToken != values.Get("subject_token") || q.SubjectToken == "" {
			t.Errorf("read %q as %#v", body, q)
		}
		if len(values["subject_token"]) != 1 || len(q.SubjectToken) > grant.MaxSubject || values.Has("resource") || values.Has("actor_token") {
			t.Errorf("let %q through", body)
		}
	})
}

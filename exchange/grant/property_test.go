package grant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

// FuzzProperties states what must hold for every decision, whatever the values are.
func FuzzProperties(f *testing.F) {
	f.Add(uint16(0), "alice", "pod-1", "n1", "runs", "runner", audience, "openid email", int64(3600e9), int64(600e9), int64(0), "a@b", "x,y")
	f.Add(uint16(1), "alice", "pod-1", "n1", "runs", "runner", audience, "openid", int64(31e9), int64(31e9), int64(1), "", "system:masters")
	f.Add(uint16(0x3c), "System:x", "pod-1", "n2", "runs", "runner", second, "", int64(-1), int64(30e9), int64(999999999), "", "")
	f.Add(uint16(0x100), "service:a", "", "", "", "", "", "", int64(1)<<62, int64(-1)<<62, int64(0), "", "")
	f.Add(uint16(0x1), "al\nice", "pod-1", "n1", "runs", "runner", audience, "admin", int64(300e9), int64(300e9), int64(5e8), "a@b\r\n", "a\x00")
	f.Fuzz(func(t *testing.T, shape uint16, submitter, uid, node, namespace, account, aud, scope string, rowLeft, subjectLeft, shift int64, email, group string) {
		q := granted([]delegation.Kind{delegation.Pod, delegation.Docker}[shape&1])
		q.now = q.now.Add(time.Duration(shift % int64(time.Minute)))
		q.sub.Submitter, q.sub.Audiences = submitter, []string{audience, second}
		q.row.ExpiresAt, q.proof.Expiry = q.now.Add(time.Duration(rowLeft)), q.now.Add(time.Duration(subjectLeft))
		q.row.State = []delegation.RowState{delegation.Active, delegation.Active, delegation.Pending, delegation.Revoked}[shape>>1&3]
		if shape>>3&1 == 1 {
			q.sub = q.sub.End(delegation.WorkFinished, q.now)
		}
		if shape>>4&7 == 7 {
			q.sub = q.sub.Revoke(delegation.SubmissionRevoked, q.now)
		}
		q.proof.PodUID, q.proof.Node, q.proof.Namespace, q.proof.ServiceAccount = uid, node, namespace, account
		q.req.Audience, q.req.Scopes = aud, strings.Split(scope, " ")
		q.about = grant.Attributes{Source: []grant.Source{grant.Configured, ""}[shape>>8&1], Email: email, Groups: []string{group, "x"}}
		q.rules.Email, q.rules.Groups = true, true
		holds(t, q, q.decide())
	})
}

func holds(t *testing.T, q question, d grant.Decision) {
	t.Helper()
	if d.Claims == nil {
		if d.Refusal.Code == "" || d.Refusal.Code == grant.ServerError || d.Refusal.Status() < 400 {
			t.Errorf("refused with %+v", d.Refusal)
		}
		return
	}
	c := *d.Claims
	ends := time.Unix(c.Expiry, 0)
	lower := strings.ToLower(c.Subject)
	switch {
	case d.Refusal != grant.Refusal{}:
		t.Errorf("granted and refused: %+v", d)
	case ends.After(q.row.ExpiresAt) || q.proof.Kind == delegation.Pod && ends.After(q.proof.Expiry) || ends.After(q.now.Add(q.rules.TTL)):
		t.Errorf("the token lives until %v, its row until %v, its proof until %v", ends, q.row.ExpiresAt, q.proof.Expiry)
	case !ends.After(q.now) || c.ExpiresIn() <= 0 || c.IssuedAt > q.now.Unix() || c.NotBefore != c.IssuedAt:
		t.Errorf("a token that is dead or not yet born: %+v at %v", c, q.now)
	case c.Subject != q.sub.Submitter || c.Subject == "" || c.Issuer != q.rules.Issuer || c.ClientID != q.rules.ClientID:
		t.Errorf("a token of somebody else: %+v", c)
	case q.row.State != delegation.Active || !q.sub.RevokedAt.IsZero() || q.row.SubmissionUID != q.sub.UID:
		t.Errorf("a token of a dead row: %+v", q.row)
	case strings.HasPrefix(lower, "service:") || strings.HasPrefix(lower, "system:") && c.Subject != "system:serviceaccount:ci:bot":
		t.Errorf("a token for the reserved subject %q", c.Subject)
	case c.Audience != q.req.Audience || c.Audience != audience && c.Audience != second:
		t.Errorf("a token for the audience %q", c.Audience)
	case q.proof.Kind == delegation.Pod && (q.proof.PodUID != q.row.Bound.Value || q.proof.Node != q.row.NodeName || c.Actor.Subject != q.proof.Username):
		t.Errorf("a token of another pod: %+v", q.proof)
	case q.about.Source == "" && c.Email+c.Groups != "":
		t.Errorf("attributes of unknown source: %+v", c)
	}
	for _, text := range []string{c.Subject, c.Actor.Subject, c.Audience, c.Email, c.Groups, c.Scope} {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("a claim that no header takes: %q", text)
		}
	}
	for word := range strings.SplitSeq(c.Scope, " ") {
		if word != "" && word != "openid" && word != "email" {
			t.Errorf("the scope %q was granted", word)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	q := granted(delegation.Pod)
	b.ReportAllocs()
	for b.Loop() {
		if d := q.decide(); d.Claims == nil {
			b.Fatal(d.Refusal)
		}
	}
}

func BenchmarkParseRequest(b *testing.B) {
	r, body := rules(), []byte(ask{}.body())
	b.ReportAllocs()
	for b.Loop() {
		if _, refusal := grant.ParseRequest(r, form, "", body); refusal != nil {
			b.Fatal(refusal)
		}
	}
}

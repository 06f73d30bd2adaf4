package grant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

// changes are what may differ from a question that is granted, one list for each thing.
func changes() [][]func(*question) {
	set := func(fs ...func(*question)) []func(*question) {
		return append([]func(*question){func(*question) {}}, fs...)
	}
	return [][]func(*question){
		set(func(q *question) { q.req.SubjectTokenType = grant.TokenTypeDocker },
			func(q *question) { q.req.SubjectTokenType = grant.TokenTypeJWT },
			func(q *question) { q.req = grant.Request{} },
			func(q *question) { q.req.Audience = second },
			func(q *question) { q.req.Audience = client },
			func(q *question) { q.rules.Enabled = false }),
		set(func(q *question) { q.proof.PodUID = "" }, func(q *question) { q.proof.PodUID = "pod-2" }, func(q *question) { q.proof.Username = "" },
			func(q *question) { q.proof.Namespace = "other" }, func(q *question) { q.proof.ServiceAccount = "other" }, func(q *question) { q.proof.Name = "" },
			func(q *question) { q.proof.Node = "n2" }, func(q *question) { q.proof.Node = "" }, func(q *question) { q.proof.Kind = "" },
			func(q *question) { q.proof.Username = strings.Repeat("x", 513) },
			func(q *question) { q.proof.Docker = delegation.Proof{} },
			func(q *question) { p, _ := container(2); q.proof.Docker = p.Docker },
			func(q *question) {
				q.proof.Docker, _ = delegation.NewProof(delegation.JobName("w", "j", "1", "s"), delegation.Secret{1}) // the secret is right
			}),
		set(func(q *question) { q.proof.Expiry = q.now }, func(q *question) { q.proof.Expiry = q.now.Add(29 * time.Second) },
			func(q *question) { q.proof.Expiry = q.now.Add(30 * time.Second) }, func(q *question) { q.proof.Expiry = time.Time{} }),
		set(func(q *question) { q.row = delegation.Row{} }, func(q *question) { q.row.Name = "other" }, func(q *question) { q.row.Kind = "" },
			func(q *question) { q.row.Bound.Name = "" }, func(q *question) { q.row.NodeName = "" }, func(q *question) { q.row.ProofHash = "" },
			func(q *question) { q.row.SubmissionUID = "" }, func(q *question) { q.row.SubmissionUID = "other" }),
		set(func(q *question) { q.row.State = delegation.Pending }, func(q *question) { q.row.State = "RUNNING" },
			func(q *question) { q.row = q.row.Revoke(delegation.RowRevoked, q.now) }),
		set(func(q *question) { q.row.ExpiresAt = q.now.Add(-1) }, func(q *question) { q.row.ExpiresAt = q.now },
			func(q *question) { q.row.ExpiresAt = q.now.Add(30*time.Second - 1) }, func(q *question) { q.row.ExpiresAt = q.now.Add(30 * time.Second) }),
		set(func(q *question) { q.sub = delegation.Submission{} }, func(q *question) { q.sub = q.sub.End(delegation.WorkFinished, q.now) },
			func(q *question) { q.sub = q.sub.Revoke(delegation.SubmissionRevoked, q.now) },
			func(q *question) { q.sub = q.sub.End(delegation.WorkFinished, q.now).Erase() },
			func(q *question) { q.sub.Audiences = nil }, func(q *question) { q.sub.State = "" }),
		set(func(q *question) { q.sub.Submitter = "service:x" }, func(q *question) { q.sub.Submitter = "SERVICE:x" },
			func(q *question) { q.sub.Submitter = "system:node:n1" }, func(q *question) { q.sub.Submitter = "system:serviceaccount:ci:bot" },
			func(q *question) { q.sub.Submitter = "System:serviceaccount:ci:bot" }, func(q *question) { q.sub.Submitter = "al ice" },
			func(q *question) { q.sub.Submitter = "alicé" }, func(q *question) { q.sub.Submitter = strings.Repeat("a", 512) },
			func(q *question) { q.sub.Submitter = strings.Repeat("a", 513) }, func(q *question) { q.sub.Submitter = "alice\n" },
			func(q *question) { q.sub.Submitter = "" }),
	}
}

func granted(kind delegation.Kind) question {
	q := question{rules: rules(), proof: pod(), row: row(), sub: submission(), req: request(), now: now()}
	if kind == delegation.Docker {
		q.proof, q.row = container(1)
		q.req.SubjectTokenType = grant.TokenTypeDocker
	}
	return q
}

// TestExhaustively compares the decision with the plain statement for every combination of up to four changes.
func TestExhaustively(t *testing.T) {
	t.Parallel()
	count, reasons := 0, map[grant.Reason]int{}
	var walk func(q question, from, more int)
	walk = func(q question, from, more int) {
		count++
		reasons[checkPlainly(t, q)]++
		if t.Failed() || more == 0 {
			return
		}
		for i := from; i < len(changes()); i++ {
			for _, change := range changes()[i][1:] {
				changed := q
				change(&changed)
				walk(changed, i+1, more-1)
			}
		}
	}
	for _, kind := range []delegation.Kind{delegation.Pod, delegation.Docker} {
		walk(granted(kind), 0, 4)
	}
	if count < 80_000 || reasons[""] < 100 {
		t.Errorf("%d combinations, %d of them granted", count, reasons[""])
	}
	for _, r := range plainRules() {
		if reasons[r.with] == 0 {
			t.Errorf("no combination is refused with %s", r.with)
		}
	}
}

func checkPlainly(t *testing.T, q question) grant.Reason {
	t.Helper()
	want, expiry := plainly(q)
	d := q.decide()
	switch {
	case d.Refusal.Reason != want || (want == "") != (d.Claims != nil) || (want != "" && d.Refusal != grant.Refuse(want)):
		t.Errorf("%+v:\ngot %+v, want reason %q", q, d.Refusal, want)
	case d.Claims != nil && (d.Claims.Expiry != expiry || d.Claims.Subject != q.sub.Submitter):
		t.Errorf("%+v:\ngot %+v, want expiry %d", q, d.Claims, expiry)
	}
	return want
}

func TestTheZeroValueGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]func(*question){
		"rules":      func(q *question) { q.rules = grant.Rules{} },
		"proof":      func(q *question) { q.proof = grant.Proof{} },
		"row":        func(q *question) { q.row = delegation.Row{} },
		"submission": func(q *question) { q.sub = delegation.Submission{} },
		"request":    func(q *question) { q.req = grant.Request{} },
		"everything": func(q *question) { *q = question{} },
	} {
		for _, kind := range []delegation.Kind{delegation.Pod, delegation.Docker} {
			q := granted(kind)
			if d := q.decide(); d.Claims == nil {
				t.Fatalf("the complete question was refused: %+v", d.Refusal)
			}
			empty(&q)
			if d := q.decide(); d.Claims != nil {
				t.Errorf("no %s: granted %+v", name, d.Claims)
			}
		}
	}
	var d grant.Decision
	if d.Claims != nil || d.Refusal.Status() != 500 {
		t.Errorf("the zero decision is answered with %d", d.Refusal.Status())
	}
}

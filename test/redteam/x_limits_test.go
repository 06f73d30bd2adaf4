//go:build unix

package redteam

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite" // whoever writes the file needs no code of ours

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

func TestX12WhatTheJobReads(t *testing.T) {
	attackX(t, "**not prevented**", "namespaces that the platform owns")
	x := withExchange(t)
	config := x.as(bystander).create(t, managed, "configmaps", object{"metadata": object{"generateName": "script-"}, "data": object{"train.sh": "train"}}).accepted(t)
	_, pod := x.victim(podtest.Volume(`{"name":"script","configMap":{"name":"` + text(config, "metadata", "name") + `"}}`))
	// An editor of the namespace changes what the job runs, and the job goes on as its submitter's.
	x.as(attacker).do(t.Context(), http.MethodPatch, path(config, "configmaps"), object{"data": object{"train.sh": "steal"}}).accepted(t)
	x.acts(pod, bystander)
}

func TestX15WithoutGuards(t *testing.T) {
	attackX(t, "never confirmed, also afterwards; drift is alarmed", "guard epoch")
	for name, watching := range map[string]bool{"the exchange watches": true, "the exchange is down": false} {
		t.Run(name, func(t *testing.T) {
			x := withExchange(t)
			victim, pod := x.victim()
			running := x.token(pod)
			if !watching {
				must(t, x.program.Stop(t.Context()))
			}
			must(t, x.in.RemovePolicies(t.Context()))
			must(t, x.in.RemoveWebhooks(t.Context()))
			mallory := x.as(attacker)
			forged := x.bound(mallory.pod(t, managed, ownedBy(victim, "batch/v1", "Job"), ownVolume(), podtest.Label("lanyard.dev/injected", "job"),
				podtest.Annotation(stampKey, "system:serviceaccount:kube-system:job-controller")))
			lie := job(ownVolume(), podtest.Label("lanyard.dev/injected", "job"))
			lie.At("metadata", "annotations")[stampKey] = bystander
			made := mallory.create(t, managed, "batch/v1/jobs", lie).accepted(t)
			own := x.podOf(made)
			if watching {
				eventually(t, "drift is told", func(context.Context) (bool, error) {
					return x.program.Metric(`lanyard_exchange_policies{state="drift"}`) == "1", nil
				})
				if g := x.exchanged(x.token(forged)); g.code != http.StatusServiceUnavailable {
					t.Errorf("a forged pod while the policies are gone: %d %v", g.code, g.claims)
				}
			}
			must(t, x.in.ApplyPolicies(t.Context()))
			must(t, x.in.ApplyWebhooks(t.Context()))
			if !watching {
				must(t, x.program.Start(context.WithoutCancel(t.Context())))
			}
			x.denied(x.token(forged), "row_revoked")
			x.denied(x.token(own), "row_revoked")
			x.becomes(running, bystander) // what was confirmed before goes on
		})
	}
}

func TestX16TakeTheNamespacesLabelAway(t *testing.T) {
	attackX(t, "refused", byLabels)
	w := redteam(t)
	for _, labels := range []object{{"lanyard.dev/jobs": nil}, {"lanyard.dev/jobs": "off"}, {"lanyard.dev/jobs": ""}} {
		w.as(provisioner).do(t.Context(), http.MethodPatch, "/api/v1/namespaces/"+managed, object{"metadata": object{"labels": labels}}).refused(t, byLabels, "")
	}
}

func TestX17ATakenNode(t *testing.T) {
	attackX(t, "the tokens of its pods, no others", "NodeRestriction")
	x := withExchange(t)
	_, pod := x.victim()
	taken := x.as("system:node:"+otherNode, "system:nodes")
	there := x.as(attacker).pod(t, managed).accepted(t)
	x.bind(there, otherNode) // of the same account: what the taken node may have is a token of this one
	x.becomes(x.request(taken, managed, "default", jobAudience, there), attacker)
	x.tokenRequest(t.Context(), taken, managed, "default", jobAudience, pod).refused(t, "node requested token bound to a pod scheduled on a different node", "")
	x.tokenRequest(t.Context(), taken, managed, "default", jobAudience, nil).refused(t, "node requested token not bound to a pod", "")
}

func TestX18AStolenToken(t *testing.T) {
	attackX(t, "**works** until it ends or its pod does", "lifetimes")
	x := withExchange(t)
	_, pod := x.victim()
	token := x.token(pod)
	elsewhere := x.from("127.0.0.2")
	if g := x.exchangedBy(elsewhere, token); g.code != http.StatusOK || g.claims["sub"] != bystander {
		t.Errorf("from elsewhere: %d %v", g.code, g.body)
	}
	x.gone(pod)
	eventually(t, "it works no more once its pod is gone", func(context.Context) (bool, error) {
		return x.exchangedBy(elsewhere, token).code == http.StatusBadRequest, nil
	})
}

func TestX19AFinishedPod(t *testing.T) {
	attackX(t, "refused", "row ends with the pod")
	x := withExchange(t)
	_, pod := x.victim()
	token := x.token(pod)
	const ended = `lanyard_exchange_ended_total{reason="pod_ended"}`
	before := x.program.Metric(ended)
	x.root().do(t.Context(), http.MethodPatch, path(pod, "pods")+"/status", object{"status": object{"phase": "Succeeded"}}).accepted(t)
	eventually(t, "its row has ended", func(context.Context) (bool, error) { return x.program.Metric(ended) != before, nil })
	x.denied(token, "row_revoked", "review_rejected") // the watch of pods says no as well, and may be asked first
	review := x.root().do(t.Context(), http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": object{"token": token, "audiences": []string{jobAudience}},
	})
	if value(decoded(t, string(review.body)), "status", "authenticated") != true {
		t.Errorf("the API server says no by itself: %s", review.body)
	}
}

func TestX20AnotherClustersToken(t *testing.T) {
	attackX(t, "refused", "review")
	x := withExchange(t)
	_, pod := x.victim()
	parts := strings.Split(x.token(pod), ".")
	key, err := rsa.GenerateKey(rand.Reader, 2048) // another cluster's
	must(t, err)
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	must(t, err)
	x.denied(parts[0]+"."+parts[1]+"."+base64.RawURLEncoding.EncodeToString(signature), "review_rejected")
}

func TestX21ASidecar(t *testing.T) {
	attackX(t, "it is mounted only in the containers that are named, or of the template", "admission")
	x := withExchange(t)
	two := podtest.Containers(podtest.Container("main"), podtest.Container("proxy"))
	pod := x.bound(x.as(bystander).pod(t, managed, two, podtest.Annotation("lanyard.dev/job-containers", "main")))
	if got := holders(pod, jobVolume); len(got) != 1 || got[0] != "main" {
		t.Errorf("the containers with the token are %q", got)
	}
	x.acts(pod, bystander)
}

func TestX22Litter(t *testing.T) {
	attackX(t, "no record: only live objects are read", "reconciler")
	x := withExchange(t)
	mallory := x.as(attacker)
	submissions, rows := x.records("submission"), x.records("delegation")
	for range 50 {
		mallory.do(t.Context(), http.MethodPost, at(managed, "batch/v1/jobs")+"?dryRun=All", job()).accepted(t)
		mallory.do(t.Context(), http.MethodPost, at(managed, "pods")+"?dryRun=All", pod()).accepted(t)
		mallory.create(t, managed, "batch/v1/jobs", job(mainWith(podtest.Env("NMP_PRINCIPAL", "root")))).refused(t, byJob, "reserved_env")
	}
	x.acts(x.bound(x.as(bystander).pod(t, managed)), bystander) // whatever was to be judged before this has been
	if s, r := x.records("submission"), x.records("delegation"); s != submissions+1 || r != rows+1 {
		t.Errorf("%d submissions and %d rows more, want one of each", s-submissions, r-rows)
	}
}

func TestX23SteerTheTemplate(t *testing.T) {
	attackX(t, "refused; suspending alone is RBAC's", byTemplates)
	x := withExchange(t)
	mallory := x.as(attacker)
	steered := object{"spec": object{"template": object{"spec": object{"nodeSelector": object{"kubernetes.io/hostname": otherNode}}}}}
	victim, _ := x.victim()
	mallory.do(t.Context(), http.MethodPatch, path(victim, "batch/v1/jobs"), object{"spec": object{"suspend": true}}).accepted(t)
	// Kubernetes itself lets nobody until the Job controller has seen the suspension; from then on it is the policy that refuses.
	a := mallory.do(t.Context(), http.MethodPatch, path(victim, "batch/v1/jobs"), steered)
	immutable := a.code == http.StatusUnprocessableEntity && strings.Contains(a.message, "field is immutable")
	if guarded := a.code == http.StatusForbidden && strings.Contains(a.message, "lanyard-job-templates"); !immutable && !guarded {
		t.Errorf("a Job that has begun: %d %s", a.code, a.message)
	}
	waiting := job()
	waiting.At("spec")["suspend"] = true
	queued := x.as(bystander).create(t, managed, "batch/v1/jobs", waiting).accepted(t)
	mallory.do(t.Context(), http.MethodPatch, path(queued, "batch/v1/jobs"), steered).refused(t, byTemplates, "who alone may change what they are made from")
}

func TestX24WriteTheDatabase(t *testing.T) {
	attackX(t, "**any identity**", "its credentials are the exchange's alone")
	x := withExchange(t)
	own := x.bound(x.as(attacker).pod(t, managed))
	x.acts(own, attacker)
	db, err := sql.Open("sqlite", filepath.Join(x.dir, "delegation.db"))
	must(t, err)
	defer func() { _ = db.Close() }()
	result, err := db.ExecContext(t.Context(), `UPDATE submission SET submitter = 'ceo@example.com' WHERE uid = ?`, text(own, "metadata", "uid"))
	must(t, err)
	if n, err := result.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d rows were written: %v", n, err)
	}
	x.acts(own, "ceo@example.com")
}

func TestX25PointToAnotherFile(t *testing.T) {
	attackX(t, "refused, `reserved_env`", byNames)
	x := withExchange(t)
	elsewhere := mainWith(podtest.Env("NMP_WORKLOAD_IDENTITY_TOKEN_FILE", "/tmp/token"))
	x.as(attacker).pod(t, managed, elsewhere).refused(t, byJob, "reserved_env", "NMP_WORKLOAD_IDENTITY_TOKEN_FILE")
	x.as(attacker).create(t, managed, "batch/v1/jobs", job(elsewhere)).refused(t, byJob, "reserved_env", "NMP_WORKLOAD_IDENTITY_TOKEN_FILE")
}

func TestX26AGroupThatIsLost(t *testing.T) {
	attackX(t, "**until the configuration says so**", "`claims.subjects`")
	x := withExchange(t)
	// The configuration here says of the bystander that she is of "ml"; no directory is asked, and no request says otherwise.
	g := x.acts(x.bound(x.as(bystander, "cluster-group").pod(t, managed)), bystander)
	if g.claims["groups"] != "ml" {
		t.Errorf("groups are %v", g.claims["groups"])
	}
	mine := x.token(x.bound(x.as(attacker).pod(t, managed)))
	x.becomes(mine, attacker)
	if g := x.exchanged(mine, "groups", "ml", "scope", "groups"); g.code != http.StatusOK || g.claims["groups"] != nil {
		t.Errorf("mallory asks for a group: %d %v", g.code, g.claims["groups"])
	}
}

func TestX28Flood(t *testing.T) {
	attackX(t, "at most sixteen reviews at a time", "gate, limits")
	x := withExchange(t)
	_, pod := x.victim()
	token := x.token(pod)
	x.becomes(token, bystander)
	parts := strings.Split(token, ".")
	reviews := func() float64 {
		total := 0.0
		for line := range strings.SplitSeq(x.program.Page("/metrics"), "\n") {
			if strings.HasPrefix(line, "lanyard_exchange_reviews_total{") {
				n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
				must(t, err)
				total += n
			}
		}
		return total
	}
	before := reviews()
	begun := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	var sent atomic.Int64
	var flood sync.WaitGroup
	elsewhere := x.from("127.0.0.3")
	for i := range 32 {
		flood.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				forged := parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%256d", i<<32|n))
				x.exchangedBy(elsewhere, forged)
				sent.Add(1)
			}
		})
	}
	var slowest time.Duration
	for range 300 {
		start := time.Now()
		x.becomes(token, bystander)
		slowest = max(slowest, time.Since(start))
	}
	cancel()
	flood.Wait()
	t.Logf("%d forged tokens cost %v reviews; the slowest of 300 good requests took %s", sent.Load(), reviews()-before, slowest.Round(time.Millisecond))
	// Twenty failures, one more a second, and those that were under way when the twentieth came.
	if more := reviews() - before; more > 20+32+10+time.Since(begun).Seconds() || sent.Load() < 500 {
		t.Errorf("%d forged tokens cost %v reviews", sent.Load(), more)
	}
}

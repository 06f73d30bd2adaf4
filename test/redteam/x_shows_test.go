//go:build unix

package redteam

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// misled is a control plane's way to a webhook on which the user's name is lost and another put in its place, as some proxies do.
func misled(t *testing.T, webhook, real, told string) *httptest.Server {
	t.Helper()
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}}}
	t.Cleanup(insecure.CloseIdleConnections)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		body = bytes.Replace(body, []byte(`"username":"`+real+`"`), []byte(`"username":"`+told+`"`), 1)
		req, err := http.NewRequestWithContext(r.Context(), r.Method, webhook+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		req.Header = r.Header.Clone()
		res, err := insecure.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestX27AnotherUserForTheWebhook(t *testing.T) {
	attackX(t, "the policy's word counts; the object is refused rather than misattributed", byStamp)
	x := withExchange(t)
	server := misled(t, x.in.Webhook().URL(), attacker, bystander)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must(t, x.in.ApplyWebhooks(ctx))
	})
	for _, u := range x.in.Objects().Webhooks() {
		place := "/apis/admissionregistration.k8s.io/v1/" + strings.ToLower(u.GetKind()) + "s/" + u.GetName()
		live := x.root().do(t.Context(), http.MethodGet, place, nil).accepted(t)
		entries, _ := value(live, "webhooks").([]any)
		for _, e := range entries {
			config := e.(map[string]any)["clientConfig"].(map[string]any)
			old := config["url"].(string)
			config["url"], config["caBundle"] = server.URL+strings.TrimPrefix(old, x.in.Webhook().URL()), ca
		}
		x.root().do(t.Context(), http.MethodPut, place, live).accepted(t)
	}
	eventually(t, "the webhook hears another name", func(ctx context.Context) (bool, error) {
		a := x.as(attacker).do(ctx, http.MethodPost, at(managed, "batch/v1/jobs"), job())
		return a.code == http.StatusForbidden && strings.Contains(a.message, "lanyard-creator-stamp"), nil
	})
	x.as(attacker).create(t, managed, "batch/v1/jobs", job()).refused(t, byStamp, "")
	x.as(attacker).pod(t, managed).refused(t, byStamp, "")
}

// TestShowsForgedReviewsAtEveryPort posts reviews that say that alice has made mallory's work to every port of every program, as any pod of
// the cluster could: nothing is remembered of it, and mallory's work stays hers.
func TestShowsForgedReviewsAtEveryPort(t *testing.T) {
	x := withExchange(t)
	made := x.as(attacker).create(t, managed, "batch/v1/jobs", job()).accepted(t)
	pod := x.podOf(made)
	review := mustReview(t, made)
	submissions, rows := x.records("submission"), x.records("delegation")
	d := desk(t, "")
	for place, want := range map[string]int{
		x.in.Webhook().URL() + "/mutate/job":           http.StatusOK, // an answer, and no more: it computes
		x.in.Webhook().URL() + "/validate/job":         http.StatusOK,
		x.program.URL + tokenPath:                      http.StatusBadRequest,
		x.program.URL + "/apis/auth/authenticate":      http.StatusUnauthorized,
		x.program.URL + "/mutate/job":                  http.StatusNotFound,
		x.program.URL + "/":                            http.StatusNotFound,
		x.program.Admin + "/admin/records/submission":  http.StatusUnauthorized,
		x.program.Admin + "/mutate/job":                http.StatusUnauthorized,
		x.program.Metrics + "/mutate/job":              http.StatusNotFound,
		x.in.Webhook().MetricsURL() + "/../mutate/job": http.StatusNotFound,
	} {
		d.url = ""
		code, _, err := d.send(t, http.MethodPost, place, "application/json", review)
		if err != nil || code != want {
			t.Errorf("%s answers with %d (%v), want %d", place, code, err, want)
		}
	}
	x.acts(pod, attacker)
	if s, r := x.records("submission"), x.records("delegation"); s > submissions+1 || r > rows+1 {
		t.Errorf("%d submissions and %d rows more, want mallory's own at most", s-submissions, r-rows)
	}
}

// mustReview is a review that says that the bystander makes the object.
func mustReview(t *testing.T, o object) []byte {
	t.Helper()
	raw, err := json.Marshal(o)
	must(t, err)
	var review map[string]any
	must(t, json.Unmarshal(podtest.Review(raw), &review))
	request := review["request"].(map[string]any)
	request["userInfo"] = map[string]any{"username": bystander, "groups": []string{"system:authenticated"}}
	request["kind"] = map[string]any{"group": "batch", "version": "v1", "kind": "Job"}
	request["resource"] = map[string]any{"group": "batch", "version": "v1", "resource": "jobs"}
	raw, err = json.Marshal(review)
	must(t, err)
	return raw
}

// TestShowsASuspendedJobThatIsReowned hangs a suspended Job of mallory's onto a CronJob of the bystander's, at birth and later.
func TestShowsASuspendedJobThatIsReowned(t *testing.T) {
	x := withExchange(t)
	cron := x.as(bystander).create(t, managed, "batch/v1/cronjobs", cronJob()).accepted(t)
	mallory := x.as(attacker)
	suspended := job()
	suspended.At("spec")["suspend"] = true
	made := mallory.create(t, managed, "batch/v1/jobs", suspended).accepted(t)
	owned := object{"metadata": object{}}
	ownedBy(cron, "batch/v1", "CronJob")(owned)
	for _, c := range []*client{mallory, x.root()} {
		c.do(t.Context(), http.MethodPatch, path(made, "batch/v1/jobs"), owned).refused(t, byOwners, "")
	}
	mallory.do(t.Context(), http.MethodPatch, path(made, "batch/v1/jobs"), object{"spec": object{"suspend": false}}).accepted(t)
	x.acts(x.podOf(made), attacker)
	born := job()
	ownedBy(cron, "batch/v1", "CronJob")(born)
	x.acts(x.podOf(mallory.create(t, managed, "batch/v1/jobs", born).accepted(t)), attacker)
}

// TestShowsAnothersTemplate changes what another's CronJob and another's suspended Job make pods from, annotations among it.
func TestShowsAnothersTemplate(t *testing.T) {
	x := withExchange(t)
	cron := x.as(bystander).create(t, managed, "batch/v1/cronjobs", cronJob()).accepted(t)
	suspended := job()
	suspended.At("spec")["suspend"] = true
	paused := x.as(bystander).create(t, managed, "batch/v1/jobs", suspended).accepted(t)
	mallory := x.as(attacker)
	noted := object{"spec": object{"template": object{"metadata": object{"annotations": object{"example.com/sidecar": "evil"}}}}}
	image := object{"spec": object{"template": object{"spec": object{"containers": []any{object{"name": "main", "image": "evil:1"}}}}}}
	for name, change := range map[string]object{"annotations": noted, "an image": image} {
		mallory.do(t.Context(), http.MethodPatch, path(cron, "batch/v1/cronjobs"), object{"spec": object{"jobTemplate": change}}).
			refused(t, byTemplates, "who alone may change what they are made from")
		if name == "annotations" { // an image of a Job's template is not changed by anybody
			mallory.do(t.Context(), http.MethodPatch, path(paused, "batch/v1/jobs"), change).refused(t, byTemplates, "who alone may change what they are made from")
		}
	}
}

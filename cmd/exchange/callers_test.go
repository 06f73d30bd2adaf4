package main

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// TestAPodThatEndedBeforeWeBegan: its object is kept, a review accepts its token, no watch shows it, and its row stands until a leader has
// looked. The API server is asked whether it runs.
func TestAPodThatEndedBeforeWeBegan(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int    // of the answer to who asks for the pod
		runs   string // the UID of the pod that runs under the name
		want   tokenreview.Reason
	}{
		"it runs":                         {http.StatusOK, "u", ""},
		"it has ended":                    {http.StatusOK, "", tokenreview.PodNotLive},
		"another runs under its name":     {http.StatusOK, "other", tokenreview.PodNotLive},
		"the API server does not tell us": {http.StatusForbidden, "", tokenreview.ValidatorUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(apiServer(t, tc.status, tc.runs))
			defer s.Close()
			metrics, err := exchange.NewMetrics(prometheus.NewRegistry())
			must(t, err)
			p := &parts{log: logr.Discard(), metrics: metrics, cluster: &rest.Config{Host: s.URL}}
			p.cfg.Rules.ClientID = "nemo-platform"
			p.cfg.Review = settings.Review{
				Timeout: 30 * time.Second, QPS: 100, Burst: 100, Concurrent: 1, Entries: 10, FailuresBurst: 10, FailuresPerMinute: 60, WatchPods: true,
			}
			p.metadata, err = metadata.NewForConfig(p.cluster)
			must(t, err)
			must(t, p.identifyCallers(t.Context()))
			defer p.close()
			v, err := p.reviewer.Review(t.Context(), proof(t), nil)
			if got := tokenreview.ReasonOf(err); got != tc.want || err == nil && v.PodUID != "u" {
				t.Errorf("got %+v, %q (%v), want %q", v, got, err, tc.want)
			}
		})
	}
}

// apiServer accepts every token as that of the pod u, and tells with a status which pod runs under its name.
func apiServer(t *testing.T, status int, runs string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, _ *http.Request) {
		review := &authenticationv1.TokenReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
			Status: authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{"nemo-platform"}, User: authenticationv1.UserInfo{
				Username: "system:serviceaccount:runs:default", UID: "account", Groups: []string{"system:serviceaccounts"},
				Extra: map[string]authenticationv1.ExtraValue{
					"authentication.kubernetes.io/pod-name": {"p"}, "authentication.kubernetes.io/pod-uid": {"u"},
					"authentication.kubernetes.io/node-name": {"n"}, "authentication.kubernetes.io/node-uid": {"m"},
				},
			}},
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if err := scheme.Codecs.LegacyCodec(authenticationv1.SchemeGroupVersion).Encode(review, w); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("GET /api/v1/namespaces/runs/pods", func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("fieldSelector"); !strings.Contains(got, "metadata.name=p") || !strings.Contains(got, "status.phase!=Succeeded") {
			t.Errorf("looked for %q", got)
		}
		items := []any{}
		if runs != "" {
			items = append(items, map[string]any{"metadata": map[string]any{"name": "p", "namespace": "runs", "uid": runs}})
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": items}); err != nil {
			t.Error(err)
		}
	})
	return mux
}

// proof looks like the subject token of the pod u.
func proof(t *testing.T) string {
	t.Helper()
	part := func(v any) string {
		raw, err := json.Marshal(v)
		must(t, err)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return part(map[string]string{"alg": "RS256", "kid": "k"}) + "." + part(map[string]any{
		"aud": []string{"nemo-platform"}, "exp": time.Now().Add(time.Hour).Unix(), "iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:runs:default",
		"kubernetes.io": map[string]any{
			"namespace": "runs", "node": map[string]string{"name": "n", "uid": "m"}, "pod": map[string]string{"name": "p", "uid": "u"},
			"serviceaccount": map[string]string{"name": "default", "uid": "account"},
		},
	}) + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("s", 256)))
}

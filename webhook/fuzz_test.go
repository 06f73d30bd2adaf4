package webhook

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// FuzzEveryBodyIsAnswered: whatever comes, an answer is JSON, never a 500, and a review is answered to the uid that a plain
// reading of the body finds.
func FuzzEveryBodyIsAnswered(f *testing.F) {
	f.Add(ask{}.body())
	f.Add(ask{operation: "UPDATE", sub: ephemeral, old: "{}"}.body())
	f.Add(ask{resource: "jobs", group: "batch", kind: "Job", object: `{"spec":{"template":{"spec":{"containers":[{"env":[{"name":"NMP_PRINCIPAL"}]}]}}}}`}.body())
	f.Add(podtest.Review([]byte(`{"metadata":null,"spec":{"containers":[null]}}`)))
	f.Add([]byte(`{"request":{"uid":"é\u0000"}}`))
	d, _ := newDesk(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{wire.PathMutateJob, wire.PathValidateJob, wire.PathValidateTemplate} {
			w := post(d, path, body)
			if w.Code == http.StatusInternalServerError || !json.Valid(w.Body.Bytes()) {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
			if w.Code != http.StatusOK {
				continue
			}
			var rv review
			_ = parseReview(body, &rv)
			if r := reviewed(t, w); string(r.UID) != rv.uid || rv.uid == "" {
				t.Fatalf("%s: answered to %q, asked by %q", path, r.UID, rv.uid)
			}
		}
	})
}

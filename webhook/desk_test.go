package webhook

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
)

func TestReviewIsAnsweredInItsVersion(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t)
	for _, version := range []string{apiV1, apiV1Beta1} {
		w := post(d, wire.PathMutateJob, ask{version: version}.body())
		if r := reviewed(t, w); !r.Allowed || r.UID != "u-1" || r.Patch == nil || *r.PatchType != admissionv1.PatchTypeJSONPatch {
			t.Errorf("%s: %s", version, w.Body)
		}
		if !strings.Contains(w.Body.String(), `"apiVersion":"`+version+`"`) {
			t.Errorf("%s is not echoed: %s", version, w.Body)
		}
	}
}

func TestSecondCallHasNoPatchAndNoPatchType(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t, decides(mutate.Decision{Outcome: mutate.Already}, nil))
	if b := post(d, wire.PathMutateJob, ask{}.body()).Body.String(); strings.Contains(b, "patch") {
		t.Errorf("got %s", b)
	}
}

func TestRoomSeesTheRequest(t *testing.T) {
	t.Parallel()
	var got mutate.Request
	d, _ := newDesk(t, func(o *Options) {
		o.Rooms.Verify = func(r mutate.Request, _ mutate.Rules) (mutate.Decision, error) {
			r.Object, r.OldObject = bytes.Clone(r.Object), bytes.Clone(r.OldObject)
			got = r
			return mutate.Decision{Outcome: mutate.Allowed}, nil
		}
	})
	post(d, wire.PathValidatePublisher, ask{operation: "UPDATE", sub: ephemeral, object: `{"a": "ä\u00e4"}`, old: `{ }`}.body())
	want := mutate.Request{
		Entry: mutate.EntryPublisher, Operation: mutate.Update, Kind: mutate.GroupKind{Kind: "Pod"}, Subresource: ephemeral,
		Namespace: "team", Username: "alice", Groups: []string{"dev"}, Object: []byte(`{"a": "ä\u00e4"}`), OldObject: []byte(`{ }`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestOutcomeThatIsNotDecidedNeverAllows(t *testing.T) {
	t.Parallel()
	for _, o := range []mutate.Outcome{"", "nonsense", mutate.Denied} {
		d, _ := newDesk(t, decides(mutate.Decision{Outcome: o, Patch: []mutate.Op{{Op: "add", Path: "/a", Value: []byte("1")}}}, nil))
		r := reviewed(t, post(d, wire.PathMutateJob, ask{}.body()))
		if r.Allowed || r.Result.Code != 403 || r.Result.Message == "" || r.Patch != nil {
			t.Errorf("%q: %+v", o, r)
		}
	}
}

func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t, func(o *Options) {
		o.Rooms.Pod = func(mutate.Request, mutate.Rules) (mutate.Decision, error) { panic("secret") }
	})
	w := post(d, wire.PathMutateJob, ask{}.body())
	st := failed(t, w)
	if w.Code != 500 || st.Details == nil || st.Details.UID != "u-1" || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestDryRunGetsEqualBytes(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t)
	body := ask{}.body()
	dry := bytes.Replace(body, []byte(`"dryRun":false`), []byte(`"dryRun":true`), 1)
	a, b := post(d, wire.PathMutateJob, body).Body.String(), post(d, wire.PathMutateJob, dry).Body.String()
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("(-real +dry):\n%s", diff)
	}
}

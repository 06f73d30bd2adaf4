package provenance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
)

// scene is everything that a pod is judged by.
type scene struct {
	pod   *corev1.Pod
	work  Object
	live  Live
	known *Known
	g     Guards
	rules Rules
}

// ofAlice is a pod of alice's Job in good order.
func ofAlice() *scene {
	work := object(job(), "train", "alice", nil)
	return &scene{pod: pod(jobController, &work), work: work, live: live(work), g: guards(), rules: rules()}
}

// change alters the live Job.
func (s *scene) change(f func(*Object)) {
	o := *s.live[s.work.Reference]
	f(&o)
	s.live[s.work.Reference] = &o
}

// changedTo gives the live Job another generation.
func (s *scene) changedTo(generation int64) {
	s.change(func(o *Object) { o.Generation = generation })
}

// seenBy is a submission whose object was seen to be of a generation, guarded since a minute.
func seenBy(submitter string, generation int64, since int) *Known {
	return &Known{Submitter: submitter, Seen: delegation.Observation{Generation: generation, Since: at(since).Time}}
}

func TestPods(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		alter         func(*scene)
		wantOutcome   Outcome
		wantReason    Reason
		wantSubmitter string
	}{
		"a pod of alice's Job is alice's":                {func(*scene) {}, Confirmed, "", "alice"},
		"a bare pod is its creator's":                    {func(s *scene) { s.pod = pod("bob", nil) }, Confirmed, "", "bob"},
		"a listed account's bare pod is its":             {func(s *scene) { s.pod = pod(submitterSA, nil) }, Confirmed, "", submitterSA},
		"a service account's bare pod":                   {func(s *scene) { s.pod = pod("system:serviceaccount:ns:default", nil) }, Refused, CreatorRefused, ""},
		"a platform service's bare pod":                  {func(s *scene) { s.pod = pod("Service:x", nil) }, Refused, CreatorRefused, ""},
		"a pod creator's bare pod, its owner taken away": {func(s *scene) { s.pod = pod(jobController, nil) }, Refused, CreatorRefused, ""},
		"a pod creator that is listed as submitter too": {func(s *scene) {
			s.pod, s.rules.Submitters = pod(jobController, nil), []string{jobController}
		}, Refused, CreatorRefused, ""},
		"a name that no token carries": {func(s *scene) { s.pod = pod("al ice", nil) }, Refused, CreatorMalformed, ""},
		"a pod of nobody":              {func(s *scene) { s.pod.Annotations = nil }, Refused, Unstamped, ""},
		"an empty stamp":               {func(s *scene) { s.pod = pod("", nil) }, Refused, Unstamped, ""},
		"a forged owner reference":     {func(s *scene) { s.pod.Annotations[wire.AnnotationCreatedBy] = "mallory" }, Refused, NotByPodCreator, ""},
		"forged labels alone":          {func(s *scene) { s.pod = pod("mallory", nil); s.pod.Labels = map[string]string{"job-name": "train"} }, Confirmed, "", "mallory"},
		"a Deployment's pod": {func(s *scene) {
			d := object(GroupKind{"apps", "ReplicaSet"}, "web", "alice", nil)
			s.pod = pod(jobController, &d)
		}, Refused, OtherController, ""},
		"two controllers": {func(s *scene) { s.pod.OwnerReferences = append(s.pod.OwnerReferences, s.pod.OwnerReferences[0]) }, Refused, Ambiguous, ""},
		"an owner that does not control": {func(s *scene) {
			s.pod = pod("bob", &s.work)
			s.pod.OwnerReferences[0].Controller = nil
		}, Confirmed, "", "bob"},
		"a Job that is gone":          {func(s *scene) { s.live[s.work.Reference] = nil }, Refused, OwnerGone, ""},
		"a Job made anew, same name":  {func(s *scene) { s.change(func(o *Object) { o.UID = "other" }) }, Refused, OwnerGone, ""},
		"a Job of another namespace":  {func(s *scene) { s.change(func(o *Object) { o.Namespace = "other" }) }, Refused, OwnerGone, ""},
		"a Job that was not read":     {func(s *scene) { s.live = nil }, NotYet, NotRead, ""},
		"a finished Job":              {func(s *scene) { s.change(func(o *Object) { o.Finished = true }) }, Refused, WorkFinished, ""},
		"a Job that is being deleted": {func(s *scene) { s.change(func(o *Object) { o.Deleting = true }) }, Refused, WorkDeleted, ""},
		"a suspended Job":             {func(s *scene) { s.change(func(o *Object) { o.Suspended = true }) }, NotYet, Suspended, ""},
		"a Job of nobody":             {func(s *scene) { s.change(func(o *Object) { o.Stamped, o.Stamp = false, "" }) }, Refused, Unstamped, ""},
		"a Job of a service account":  {func(s *scene) { s.change(func(o *Object) { o.Stamp = "system:serviceaccount:ns:ci" }) }, Refused, CreatorRefused, ""},
		"a Job older than the epoch":  {func(s *scene) { s.change(func(o *Object) { o.Created = at(9) }) }, Refused, BeforeGuards, ""},
		"a Job confirmed before the epoch": {func(s *scene) {
			s.change(func(o *Object) { o.Created = at(9) })
			s.known = seenBy("alice", 1, 9)
		}, Confirmed, "", "alice"},
		"a Job changed before the epoch":               {func(s *scene) { s.changedTo(2); s.known = seenBy("alice", 1, 9) }, Refused, ChangedUnguarded, ""},
		"a Job changed since the epoch":                {func(s *scene) { s.changedTo(2); s.known = seenBy("alice", 1, 10) }, Confirmed, "", "alice"},
		"a Job changed before its namespace came back": {func(s *scene) { s.changedTo(2); s.g.Since = at(25); s.known = seenBy("alice", 1, 10) }, Refused, ChangedUnguarded, ""},
		"a Job unchanged while its namespace was away": {func(s *scene) { s.g.Since = at(25); s.known = seenBy("alice", 1, 10) }, Confirmed, "", "alice"},
		"a Job without a generation, before the epoch": {func(s *scene) { s.changedTo(0); s.known = seenBy("alice", 0, 9) }, Refused, ChangedUnguarded, ""},
		"a confirmed Job with another's stamp":         {func(s *scene) { s.change(func(o *Object) { o.Stamp = "mallory" }); s.known = seenBy("alice", 1, 10) }, Refused, ChangedUnguarded, ""},
		"a confirmed Job without a stamp": {func(s *scene) {
			s.change(func(o *Object) { o.Stamp, o.Stamped = "", false })
			s.known = seenBy("alice", 1, 10)
		}, Refused, ChangedUnguarded, ""},
		"a confirmed Job of a parent's": {func(s *scene) {
			s.change(func(o *Object) { o.Stamp = cronController })
			s.known = seenBy("alice", 1, 10)
			s.known.Via = "uid-nightly"
		}, Confirmed, "", "alice"},
		"one that bears its submitter's stamp":         {func(s *scene) { s.known = seenBy("alice", 1, 10); s.known.Via = "uid-nightly" }, Refused, ChangedUnguarded, ""},
		"a Job that was seen by nobody, nor any epoch": {func(s *scene) { s.known = &Known{Submitter: "alice"} }, Refused, ChangedUnguarded, ""},
		"a closed submission":                          {func(s *scene) { s.known = &Known{Submitter: "alice", Closed: true} }, Refused, SubmissionClosed, ""},
		"a pod older than the epoch":                   {func(s *scene) { s.pod.CreationTimestamp, s.known = at(9), seenBy("alice", 1, 10) }, Refused, BeforeGuards, ""},
		"a pod of the epoch's second":                  {func(s *scene) { s.pod.CreationTimestamp = at(10) }, Confirmed, "", "alice"},
		"a pod older than the namespace's label":       {func(s *scene) { s.g.Since = at(31) }, Refused, BeforeGuards, ""},
		"no epoch yet":                                 {func(s *scene) { s.g.Epoch = metav1.Time{} }, Refused, BeforeGuards, ""},
		"policies that are down":                       {func(s *scene) { s.g.InOrder = false }, NotYet, GuardsDown, ""},
		"a namespace that is not managed":              {func(s *scene) { s.g.Managed = false }, Exempt, NotManaged, ""},
		"a pod that opted out":                         {func(s *scene) { s.pod.Labels = map[string]string{wire.LabelRole: wire.RoleNone} }, Exempt, OptedOut, ""},
		"a pod without our volume":                     {func(s *scene) { s.pod.Spec.Volumes = nil }, Refused, NoVolume, ""},
		"our volume for another audience":              {func(s *scene) { s.rules.Audience = "other" }, Refused, NoVolume, ""},
		"no audience at all":                           {func(s *scene) { s.rules.Audience = "" }, Refused, NoVolume, ""},
		"a pod without account":                        {func(s *scene) { s.pod.Spec.ServiceAccountName = "" }, Refused, NoAccount, ""},
		"a pod that succeeded":                         {func(s *scene) { s.pod.Status.Phase = corev1.PodSucceeded }, Refused, PodEnded, ""},
		"a pod that failed":                            {func(s *scene) { s.pod.Status.Phase = corev1.PodFailed }, Refused, PodEnded, ""},
		"a pod in its grace period":                    {func(s *scene) { end := at(61); s.pod.DeletionTimestamp = &end }, Confirmed, "", "alice"},
		"a pod past its grace period":                  {func(s *scene) { end := at(59); s.pod.DeletionTimestamp = &end }, Refused, PodGone, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := ofAlice()
			tc.alter(s)
			got := s.rules.Pod(s.pod, s.live, s.known, s.g, at(60))
			if got.Outcome != tc.wantOutcome || got.Reason != tc.wantReason || got.Submitter != tc.wantSubmitter {
				t.Errorf("got %+v, want %s %s %q", got, tc.wantOutcome, tc.wantReason, tc.wantSubmitter)
			}
			if (got.Need != nil) != (got.Reason == NotRead) || (got.Outcome == Confirmed) != (got.Submission.UID != "") {
				t.Errorf("the verdict contradicts itself: %+v", got)
			}
		})
	}
}

func TestTheSubmissionIsTheControllersOrThePodItself(t *testing.T) {
	t.Parallel()
	s := ofAlice()
	want := Verdict{
		Outcome: Confirmed, Submitter: "alice", Submission: s.work.Reference, Observed: delegation.Observation{Generation: 1, Since: at(10).Time},
	}
	if diff := cmp.Diff(want, s.rules.Pod(s.pod, s.live, nil, s.g, at(60))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = Verdict{Outcome: Confirmed, Submitter: "bob", Submission: Reference{PodKind(), "ns", "pod", "uid-pod"}}
	if diff := cmp.Diff(want, s.rules.Pod(pod("bob", nil), nil, nil, s.g, at(60))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

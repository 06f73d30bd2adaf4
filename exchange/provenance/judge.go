package provenance

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
)

// Verdict is what was decided about an object.
type Verdict struct {
	Outcome Outcome
	Reason  Reason
	// Submission is the object that was submitted: the pod itself if it is bare, else its controller.
	Submission Reference
	// Submitter is whom it acts for, Via the UID of the parent whose submitter was copied, if there was one.
	Submitter string
	Via       string
	// Observed is how the submitted object was seen when it was judged; zero for a pod, and for what was confirmed before.
	Observed delegation.Observation
	// Need names a live object without which nothing can be said; only with NotYet and NotRead.
	Need *Reference
	// About is the object that a refusal is about, where it is not the one that was judged.
	About Reference
}

// Known is a submission that was confirmed before. Nothing that is done to parents later touches it.
type Known struct {
	Submitter string
	Via       string
	// Closed says that it gets no new rows.
	Closed bool
	// Seen is how its object was last seen.
	Seen delegation.Observation
}

func refused(why Reason) Verdict { return Verdict{Outcome: Refused, Reason: why} }
func notYet(why Reason) Verdict  { return Verdict{Outcome: NotYet, Reason: why} }
func exempt(why Reason) Verdict  { return Verdict{Outcome: Exempt, Reason: why} }

// Work judges an object of a job kind that is not confirmed yet.
func (r Rules) Work(o Object, live Live, g Guards) Verdict {
	switch {
	case !g.Managed:
		return exempt(NotManaged)
	case o.OptedOut:
		return exempt(OptedOut)
	case o.Deleting:
		return refused(WorkDeleted)
	case o.Finished:
		return refused(WorkFinished)
	}
	return r.trace(o, live, g)
}

// trace finds an object's submitter: its stamp, or the one of the parent that a delegating controller has made it for.
func (r Rules) trace(o Object, live Live, g Guards) Verdict {
	v := Verdict{Submission: o.Reference, Observed: g.Observed(o)}
	for level := 0; ; level++ {
		if why := r.sound(o, g); why != "" {
			return waiting(why, o.Reference)
		}
		parents, delegated := r.delegates(o.Stamp)
		if !delegated {
			if why := r.submitter(o.Stamp); why != "" {
				return waiting(why, o.Reference)
			}
			v.Outcome, v.Submitter = Confirmed, o.Stamp
			return v
		}
		if level == maxLevels {
			return refused(TooDeep)
		}
		parent, stop := step(o, parents, live)
		if stop != nil {
			return *stop
		}
		if level == 0 {
			v.Via = parent.UID
		}
		o = parent
	}
}

// sound says what keeps an object's stamp from being believed.
func (r Rules) sound(o Object, g Guards) Reason {
	switch {
	case !g.InOrder:
		return GuardsDown
	case !g.vouched(o.Created) || !g.listed(o):
		return BeforeGuards
	case !o.Stamped || o.Stamp == "":
		return Unstamped
	default:
		return ""
	}
}

// waiting is the verdict for what sound or submitter has said about an object.
func waiting(why Reason, about Reference) Verdict {
	if why == GuardsDown {
		return notYet(why)
	}
	v := refused(why)
	v.About = about
	return v
}

// step goes from an object to its live parent, of one of the kinds.
func step(o Object, kinds []GroupKind, live Live) (parent Object, stop *Verdict) {
	v := refused(NoParent)
	if len(o.Controllers) > 1 {
		v = refused(Ambiguous)
	}
	if len(o.Controllers) != 1 {
		return Object{}, &v
	}
	ref := referred(o.Controllers[0], o.Namespace)
	if !slices.Contains(kinds, ref.GroupKind) {
		return Object{}, &v
	}
	return read(ref, live)
}

// read finds the live object that a reference means: same kind, namespace, name and UID.
func read(ref Reference, live Live) (Object, *Verdict) {
	found, asked := live[ref]
	if !asked {
		v := notYet(NotRead)
		v.Need = &ref
		return Object{}, &v
	}
	if found == nil || found.Reference != ref || ref.UID == "" {
		v := refused(OwnerGone)
		return Object{}, &v
	}
	return *found, nil
}

// Pod judges a pod that has no row yet, as it was read live. known is the submission of its controller, nil if there is none. now
// is the API server's time.
func (r Rules) Pod(p *corev1.Pod, live Live, known *Known, g Guards, now metav1.Time) Verdict {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	switch {
	case p.Labels[wire.LabelRole] == wire.RoleNone:
		return exempt(OptedOut)
	case !g.Managed:
		return exempt(NotManaged)
	case ended:
		return refused(PodEnded)
	case p.DeletionTimestamp != nil && now.Time.After(p.DeletionTimestamp.Time):
		return refused(PodGone)
	}
	self := podObject(p)
	if why := r.sound(self, g); why != "" {
		return waiting(why, self.Reference)
	}
	switch {
	case p.Spec.ServiceAccountName == "":
		return refused(NoAccount)
	case !r.projects(p):
		return refused(NoVolume)
	case len(self.Controllers) > 1:
		return refused(Ambiguous)
	case len(self.Controllers) == 1:
		return r.controlled(self, live, known, g)
	}
	if why := r.submitter(self.Stamp); why != "" {
		return refused(why)
	}
	return Verdict{Outcome: Confirmed, Submission: self.Reference, Submitter: self.Stamp}
}

// controlled judges a pod with a controller: made by a pod creator of the controller's kind, for a live object that still works.
func (r Rules) controlled(pod Object, live Live, known *Known, g Guards) Verdict {
	ref := referred(pod.Controllers[0], pod.Namespace)
	kind, ours := r.kind(ref.GroupKind)
	switch {
	case !ours:
		return refused(OtherController)
	case !slices.Contains(kind.PodCreators, pod.Stamp):
		return refused(NotByPodCreator)
	}
	work, stop := read(ref, live)
	switch {
	case stop != nil:
		return *stop
	case work.Deleting:
		return refused(WorkDeleted)
	case work.Finished:
		return refused(WorkFinished)
	case known != nil && known.Closed:
		return refused(SubmissionClosed)
	case work.Suspended:
		return notYet(Suspended)
	case known != nil && !g.listed(work): // confirmed before its kind left the list; who changed its template since, nobody knows
		return waiting(BeforeGuards, work.Reference)
	case known != nil && !(r.Untouched(work, *known) && known.Seen.Explains(g.Observed(work))): // nor does anybody here
		return waiting(ChangedUnguarded, work.Reference)
	case known != nil:
		return Verdict{Outcome: Confirmed, Submission: ref, Submitter: known.Submitter, Via: known.Via}
	}
	return r.trace(work, live, g)
}

// Untouched says whether the stamp of an object is still the one that it was confirmed by: its submitter's, or a delegating controller's. A
// change of an annotation moves no generation, and whoever has written another's name there while nothing guarded it may change the
// template under the policies' eyes ever after.
func (r Rules) Untouched(work Object, known Known) bool {
	if known.Via == "" {
		return work.Stamped && work.Stamp == known.Submitter
	}
	_, delegated := r.delegates(work.Stamp)
	return delegated
}

// podObject is what of a pod is judged as of any object.
func podObject(p *corev1.Pod) Object {
	o := Object{
		Reference:   Reference{GroupKind: PodKind(), Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
		Created:     p.CreationTimestamp,
		Controllers: controllers(p.OwnerReferences),
	}
	o.Stamp, o.Stamped = p.Annotations[wire.AnnotationCreatedBy]
	return o
}

// projects says whether the pod's volume of our name projects the subject token.
func (r Rules) projects(p *corev1.Pod) bool {
	return r.Audience != "" && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == wire.VolumeJob && v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == r.Audience && s.ServiceAccountToken.Path == wire.TokenFile
		})
	})
}

package doctor

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
)

// examineAudiences looks for pods that hold a protected audience's token without being entitled to it.
func examineAudiences(s Snapshot) []Finding {
	var found []Finding
	for _, a := range s.audiences() {
		var names []string
		for _, pod := range s.Pods {
			if live(pod) && projects(pod, a.audience) && !a.entitled(pod) {
				names = append(names, pod.Namespace+"/"+pod.Name)
			}
		}
		if len(names) > 0 {
			found = append(found, Finding{
				Severity: Warn, Subject: "audience " + a.audience,
				Message: fmt.Sprintf("projected by pods that are on no list, %d in all: %s. They were created before the policies, and will be refused when they are created again", len(names), few(names)),
				Advice:  a.advice,
			})
		}
	}
	return found
}

// audience is a protected audience and who is entitled to it.
type audience struct {
	audience string
	entitled func(corev1.Pod) bool
	advice   string
}

func (s Snapshot) audiences() []audience {
	var all []audience
	if p := s.Settings.Rules.Publisher; p != nil {
		enabled := s.publishers()
		all = append(all, audience{
			audience: p.Audience,
			entitled: func(pod corev1.Pod) bool {
				account := pod.Namespace + "/" + accountOf(pod)
				return pod.Namespace == s.Release || slices.Contains(p.Listed, account) || slices.Contains(s.Settings.Entitled, account) ||
					(enabled[pod.Namespace] && pod.Labels[wire.LabelRole] == wire.RolePublisher)
			},
			advice: "put their service accounts on the list publishers, or label the namespace and the pods; delete pods that have no business reporting",
		})
	}
	if j := s.Settings.Rules.Job; j != nil {
		managed := s.managed()
		all = append(all, audience{
			audience: j.Audience,
			entitled: func(pod corev1.Pod) bool {
				return pod.Namespace == s.Release || (managed[pod.Namespace] && s.actsForSubmitter(pod))
			},
			advice: "delete these pods, or submit their work as a job in a namespace that is labelled " + wire.LabelJobs + "=" + wire.JobsManaged,
		})
	}
	return all
}

func accountOf(pod corev1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return "default"
	}
	return pod.Spec.ServiceAccountName
}

// live says whether a pod still runs, or will.
func live(pod corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func projects(pod corev1.Pod, audience string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool {
			return p.ServiceAccountToken != nil && p.ServiceAccountToken.Audience == audience
		})
	})
}

// examineInjection looks for pods that are entitled to a token and do not carry it.
func examineInjection(s Snapshot) []Finding {
	managed, enabled := s.managed(), s.publishers()
	missing := map[mutate.Role][]string{}
	for _, pod := range s.Pods {
		name := pod.Namespace + "/" + pod.Name
		if _, mirror := pod.Annotations[wire.AnnotationMirror]; mirror || !live(pod) {
			continue
		}
		if s.publisherRole() && s.isPublisher(pod, enabled) && !hasVolume(pod, wire.VolumePublisher) {
			missing[mutate.Publisher] = append(missing[mutate.Publisher], name)
		}
		if s.jobRole() && managed[pod.Namespace] && s.actsForSubmitter(pod) && !hasVolume(pod, wire.VolumeJob) {
			missing[mutate.Job] = append(missing[mutate.Job], name)
		}
	}
	var found []Finding
	for role, names := range missing {
		found = append(found, Finding{
			Severity: Warn, Subject: "role " + string(role),
			Message: fmt.Sprintf("pods that should carry the %s's token do not, %d in all: %s. They were created before the namespace was labelled, or while the webhook was away", role, len(names), few(names)),
			Advice:  "delete the pods so that their controllers create them again; a running pod cannot be given a token",
		})
	}
	return found
}

func (s Snapshot) isPublisher(pod corev1.Pod, enabled map[string]bool) bool {
	if enabled[pod.Namespace] && pod.Labels[wire.LabelRole] == wire.RolePublisher {
		return true
	}
	p := s.Settings.Rules.Publisher
	return p != nil && slices.Contains(p.Listed, pod.Namespace+"/"+accountOf(pod)) && !slices.Contains(builtInExcluded(), pod.Namespace)
}

// actsForSubmitter says whether a pod of a managed namespace is a job's or bare, and did not opt out of identity.
func (s Snapshot) actsForSubmitter(pod corev1.Pod) bool {
	if pod.Labels[wire.LabelRole] == wire.RoleNone {
		return false
	}
	owner := metav1.GetControllerOf(&pod)
	if owner == nil {
		return true
	}
	kind := mutate.GroupKind{Group: schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group, Kind: owner.Kind}
	kinds := []mutate.GroupKind{{Group: "batch", Kind: "Job"}}
	if j := s.Settings.Rules.Job; j != nil {
		kinds = j.Kinds
	}
	return slices.Contains(kinds, kind)
}

func hasVolume(pod corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
}

// examineStamps looks for work in managed namespaces that nobody can be held to have submitted.
func examineStamps(s Snapshot) []Finding {
	managed := s.managed()
	unstamped := map[string][]string{}
	for _, w := range s.Work {
		if managed[w.Namespace] && !w.Stamped && !w.Ended {
			unstamped[w.Namespace] = append(unstamped[w.Namespace], w.Resource+" "+w.Name)
		}
	}
	var found []Finding
	for namespace, names := range unstamped {
		found = append(found, Finding{
			Severity: Warn, Subject: "Namespace/" + namespace,
			Message: fmt.Sprintf("work without a creator's stamp, %d in all: %s. It was created before the namespace was labelled, and acts for nobody", len(names), few(names)),
			Advice:  "delete and create it again as the person who submits it",
		})
	}
	return found
}

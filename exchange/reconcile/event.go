package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// component names us in Events.
const component = "lanyard-exchange"

// The reasons of our Events.
const (
	eventRefused   = "IdentityRefused"
	eventDrift     = "PolicyDrift"
	eventNoRight   = "NoRightInNamespace"
	eventUnguarded = "KindNotGuarded"
)

// Keys of log lines.
const (
	keyKind      = "kind"
	keyNamespace = "namespace"
	keyName      = "name"
	keyReason    = "reason"
	keyCause     = "cause"
	keyState     = "state"
	keyPolicies  = "policies"
	keyEpoch     = "epoch"
)

var errNoCA = errors.New("there is none")

// happening is what an Event says.
type happening struct {
	kind, version, namespace, name, uid string
	reason, message                     string
}

// tell writes the Event that tells an object's owner why it was refused. Refusals that are nobody's fault are not told.
func (r *Reconciler) tell(ctx context.Context, about provenance.Reference, v provenance.Verdict) {
	text := v.Reason.Message()
	if text == "" {
		return
	}
	what := about.Kind + " " + about.Name
	if v.About.UID != "" {
		what = v.About.Kind + " " + v.About.Name
	}
	r.options.Log.Info("refused", keyKind, about.GroupKind.String(), keyNamespace, about.Namespace, keyName, about.Name, keyReason, string(v.Reason))
	r.happen(ctx, happening{
		kind: about.Kind, version: r.version(about), namespace: about.Namespace, name: about.Name, uid: about.UID,
		reason: eventRefused, message: "no identity (" + string(v.Reason) + "): " + what + ": " + text,
	})
}

// version is the apiVersion that an Event names; without one, describing an object would not find it.
func (r *Reconciler) version(about provenance.Reference) string {
	resource, err := r.reads.resource(about.GroupKind)
	if err != nil {
		return about.Group
	}
	return resource.GroupVersion().String()
}

// happen writes an Event. Its name is made of what it says: the same is not said twice while the API server remembers it.
func (r *Reconciler) happen(ctx context.Context, h happening) {
	sum := sha256.Sum256([]byte(strings.Join([]string{h.uid, h.reason, h.message}, "\n")))
	at := metav1.NewTime(r.options.Now())
	in := orElse(h.namespace, metav1.NamespaceDefault)
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%x", strings.TrimRight(h.name[:min(len(h.name), 200)], ".-"), sum[:8]),
			Namespace: in,
		},
		InvolvedObject: corev1.ObjectReference{APIVersion: h.version, Kind: h.kind, Namespace: h.namespace, Name: h.name, UID: types.UID(h.uid)},
		Type:           corev1.EventTypeWarning, Reason: h.reason, Message: h.message,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source: corev1.EventSource{Component: component}, ReportingController: component, ReportingInstance: component,
	}
	if h.kind == "Namespace" {
		e.InvolvedObject.Namespace = h.namespace
	}
	_, err := r.reads.typed.CoreV1().Events(in).Create(ctx, e, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = r.again(ctx, e)
	}
	if err != nil {
		r.failed(err, "writing an Event")
	}
}

// again says of an Event that is there already that it has happened once more. Drift alone comes and goes; a refusal is found
// again whenever its object is looked at, and would be written as often.
func (r *Reconciler) again(ctx context.Context, e *corev1.Event) error {
	if e.Reason != eventDrift {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"lastTimestamp": e.LastTimestamp})
	if err != nil {
		return fmt.Errorf("writing a patch: %w", err)
	}
	_, err = r.reads.typed.CoreV1().Events(e.Namespace).Patch(ctx, e.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// guardChanged tells of policies that are out of order, or in order again.
func (r *Reconciler) guardChanged(before, now standing) {
	r.options.Metrics.stands(now)
	r.nudge() // a worker may have seen it first
	if before.state == "" && now.state == InOrder {
		r.options.Log.Info("policies are in order", keyEpoch, now.epoch)
		return
	}
	r.options.Log.Info("policies", keyState, string(now.state), keyPolicies, now.names, keyEpoch, now.epoch)
	if now.state != Drift {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	for _, name := range now.names {
		r.happen(ctx, happening{
			kind: "ValidatingAdmissionPolicy", version: admission().String(), name: name, reason: eventDrift,
			message: "the policy or its binding is missing, weaker or narrower than Lanyard's configuration asks for; no new work gets an identity " +
				"until it is as it was, and what is created meanwhile never will; apply the chart again",
		})
	}
}

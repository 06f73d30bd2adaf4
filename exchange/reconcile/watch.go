package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
	"github.com/lanyard-k8s/lanyard/policy"
)

// injectedJobs selects the pods that the webhook has given a subject token.
const injectedJobs = wire.LabelInjected + " in (job, publisher.job)"

// watches say where to look. They hold names and UIDs and nothing else of the objects.
type watches struct {
	r       *Reconciler
	running sync.WaitGroup
	byKind  map[provenance.GroupKind]cache.SharedIndexInformer
	missing map[provenance.GroupKind]time.Time // kinds that are undefined, since when
	told    map[provenance.GroupKind]bool      // kinds that are served under another name, as people were told
	epoch   time.Time                          // that everything was looked at under
}

func (r *Reconciler) newWatches() *watches {
	return &watches{r: r, byKind: map[provenance.GroupKind]cache.SharedIndexInformer{}, missing: map[provenance.GroupKind]time.Time{}, told: map[provenance.GroupKind]bool{}}
}

// limiter spaces the attempts at one object; how fast everything goes is up to the workers and the API server.
func limiter() workqueue.TypedRateLimiter[key] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[key](100*time.Millisecond, 30*time.Second)
}

// start watches policies, namespaces, pods and the job kinds that are defined.
func (w *watches) start(ctx context.Context) error {
	poke := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.r.nudge() }, UpdateFunc: func(any, any) { w.r.nudge() }, DeleteFunc: func(any) { w.r.nudge() },
	}
	for _, resource := range []schema.GroupVersionResource{
		admission().WithResource("validatingadmissionpolicies"),
		admission().WithResource("validatingadmissionpolicybindings"),
		corev1.SchemeGroupVersion.WithResource("namespaces"),
	} {
		if _, err := w.watch(ctx, resource, "", poke); err != nil {
			return err
		}
	}
	pods := provenance.PodKind()
	informer, err := w.watch(ctx, corev1.SchemeGroupVersion.WithResource("pods"), injectedJobs, w.enqueues(pods))
	if err != nil {
		return err
	}
	w.byKind[pods] = informer
	w.more(ctx)
	return nil
}

// more watches job kinds that have been defined since. Kinds that were served under another resource may have been defined anew; that is
// asked for once a tick, and not at each of their objects, since it asks the API server for all that it serves.
func (w *watches) more(ctx context.Context) {
	if len(w.told) > 0 {
		w.r.reads.mapper.Reset()
	}
	for _, k := range w.r.rules.Kinds {
		if w.byKind[k.GroupKind] != nil {
			continue
		}
		resource, err := w.r.reads.resource(k.GroupKind)
		if err == nil {
			w.byKind[k.GroupKind], err = w.watch(ctx, resource, "", w.enqueues(k.GroupKind))
		}
		if err != nil {
			delete(w.byKind, k.GroupKind)
			w.r.options.Log.Info("a job kind cannot be watched yet", keyKind, k.GroupKind.String(), keyCause, err.Error())
		}
	}
	w.misnamed(ctx)
}

// misnamed tells of kinds that the API server serves under another resource than the policies match. Their work gets no identity, and the
// policies look in order, so that nothing else would say it.
func (w *watches) misnamed(ctx context.Context) {
	for kind, resource := range w.r.reads.guarded {
		_, err := w.r.reads.resource(kind)
		if !errors.Is(err, errMisnamed) {
			delete(w.told, kind)
			continue
		}
		if w.told[kind] {
			continue
		}
		w.told[kind] = true
		w.r.options.Log.Info("a kind is not guarded", keyKind, kind.String(), keyCause, err.Error())
		w.r.happen(ctx, happening{
			kind: "ValidatingAdmissionPolicy", version: admission().String(), name: policy.CreatorStamp, reason: eventUnguarded,
			message: fmt.Sprintf("%s is not served as %q, so nothing guards its objects, and they get no identity; name its resource in jobKinds, "+
				"or in the resources of its delegatingControllers", kind, resource),
		})
	}
}

// watch runs a watch until ctx ends.
func (w *watches) watch(ctx context.Context, resource schema.GroupVersionResource, selector string, h cache.ResourceEventHandler) (cache.SharedIndexInformer, error) {
	tweak := func(o *metav1.ListOptions) { o.LabelSelector = selector }
	informer := metadatainformer.NewFilteredMetadataInformer(w.r.reads.meta, resource, metav1.NamespaceAll, 0, cache.Indexers{}, tweak).Informer()
	if err := informer.SetTransform(bare); err != nil {
		return nil, err
	}
	if _, err := informer.AddEventHandler(h); err != nil {
		return nil, err
	}
	w.running.Go(func() { informer.RunWithContext(ctx) })
	return informer, nil
}

// bare leaves the names of an object.
func bare(object any) (any, error) {
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}}, nil
}

// enqueues has every object looked at that something has happened to. What belongs to nobody's managed namespace is left out,
// except for pods: one with a row may have stayed when the label went.
func (w *watches) enqueues(kind provenance.GroupKind) cache.ResourceEventHandler {
	add := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if o, ok := object.(*metav1.PartialObjectMetadata); ok {
			if kind == provenance.PodKind() || w.r.guard.manages(o.Namespace) {
				w.r.queue.Add(keyOf(kind, o))
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: add, DeleteFunc: add,
		UpdateFunc: func(before, now any) {
			b, one := before.(*metav1.PartialObjectMetadata)
			n, two := now.(*metav1.PartialObjectMetadata)
			if one && two && b.UID != n.UID {
				add(before)
			}
			add(now)
		},
	}
}

func keyOf(kind provenance.GroupKind, o *metav1.PartialObjectMetadata) key {
	return key{GroupKind: kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
}

// synced waits until everything was listed once.
func (w *watches) synced(ctx context.Context) bool {
	for _, informer := range w.byKind {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return false
		}
	}
	return true
}

// seen are the objects of a kind that the watch shows, by UID.
func (w *watches) seen(kind provenance.GroupKind) map[string]key {
	all := map[string]key{}
	if informer := w.byKind[kind]; informer != nil {
		for _, object := range informer.GetStore().List() {
			if o, ok := object.(*metav1.PartialObjectMetadata); ok {
				all[string(o.UID)] = keyOf(kind, o)
			}
		}
	}
	return all
}

// nudge asks for a look at policies and namespaces.
func (r *Reconciler) nudge() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

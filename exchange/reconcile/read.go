package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// callTimeout is for one question to the API server, pageSize the length of a list's page.
const (
	callTimeout = 10 * time.Second
	pageSize    = 500
)

// errClock: our clock and the API server's differ, so nothing that depends on time is decided.
var errClock = errors.New("our clock and the API server's differ by more than 30 s")

// errUndefined: the API server knows no such kind. It may never have been installed, or its definition is gone, and its objects with it.
var errUndefined = errors.New("the API server defines no such kind")

// errMisnamed: the API server serves a kind under another resource than the policies match, so nothing guards its objects.
var errMisnamed = errors.New("the policies match another resource than the API server serves")

// partOf selects our policies for the quick look. One that has lost the label is missing there, and then all are read.
const partOf = "app.kubernetes.io/part-of=lanyard"

// reads are the live reads: every one asks the API server, and none a cache.
type reads struct {
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	meta    metadata.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	found   discovery.CachedDiscoveryInterface // the mapper's source
	guarded map[provenance.GroupKind]string    // the resources that the policies match
}

// newReads makes clients whose answers' dates are looked at. They wait for nobody but the API server: its own priority and
// fairness is the limit, and how many ask at once is bounded by the workers.
func newReads(config *rest.Config, clock *serverClock, guarded map[provenance.GroupKind]string) (reads, error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst = -1, 0
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return clock.wrap(next) })
	r := reads{guarded: guarded}
	var errs [3]error
	built := rest.CopyConfig(c)
	built.ContentType, built.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	typed, err := kubernetes.NewForConfig(built)
	r.typed, errs[0] = typed, err
	r.dynamic, errs[1] = dynamic.NewForConfig(c)
	r.meta, errs[2] = metadata.NewForConfig(c)
	if err := errors.Join(errs[:]...); err != nil {
		return reads{}, fmt.Errorf("make clients: %w", err)
	}
	r.found = memory.NewMemCacheClient(typed.Discovery())
	r.mapper = restmapper.NewDeferredDiscoveryRESTMapper(r.found)
	return r, nil
}

// resource finds where objects of a kind are read, in the version that the API server prefers. It is not where the policies look if the
// settings, which may only guess it, name another resource; then nothing is read, since no stamp there is true.
func (r reads) resource(kind provenance.GroupKind) (schema.GroupVersionResource, error) {
	m, err := r.mapper.RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind})
	if meta.IsNoMatchError(err) {
		_, _, untold := r.found.ServerGroupsAndResources()
		r.mapper.Reset() // it may have been defined since
		if err := away(kind.Group, untold); err != nil {
			return schema.GroupVersionResource{}, fmt.Errorf("find the resource of %s: its group cannot be asked: %w", kind, err)
		}
		return schema.GroupVersionResource{}, fmt.Errorf("%w: %s", errUndefined, kind)
	}
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("find the resource of %s: %w", kind, err)
	}
	if want, listed := r.guarded[kind]; listed && m.Resource.Resource != want { // whether it was defined anew since is asked by watches.more
		return schema.GroupVersionResource{}, fmt.Errorf("%w: %s is %q, the policies have %q", errMisnamed, kind, m.Resource.Resource, want)
	}
	return m.Resource, nil
}

// away is why nothing is known of a group, or nil if all of it was told. The mapper leaves out what it was not told, such as the kinds of
// an API server that is registered with the cluster's own and does not answer; those are not gone.
func away(group string, err error) error {
	versions, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if !partly {
		return err
	}
	for v, why := range versions {
		if v.Group == group {
			return why
		}
	}
	return nil
}

// object reads one object, or nil if there is none of this UID.
func (r reads) object(ctx context.Context, ref provenance.Reference) (*provenance.Object, error) {
	resource, err := r.resource(ref.GroupKind)
	if err != nil {
		return nil, err
	}
	u, err := r.dynamic.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s/%s: %w", ref.GroupKind, ref.Namespace, ref.Name, err)
	}
	if o := provenance.Read(ref.GroupKind, u); o.Reference == ref {
		return &o, nil
	}
	return nil, nil
}

// pod reads one pod, or nil if there is none of this UID.
func (r reads) pod(ctx context.Context, ref provenance.Reference) (*corev1.Pod, error) {
	p, err := r.typed.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read pod %s/%s: %w", ref.Namespace, ref.Name, err)
	case string(p.UID) != ref.UID:
		return nil, nil
	}
	return p, nil
}

// pods are the pods of a namespace by UID, whatever their labels.
func (r reads) pods(ctx context.Context, namespace string) (map[string]string, error) {
	names := map[string]string{}
	err := r.list(ctx, corev1.SchemeGroupVersion.WithResource("pods"), namespace, "", func(o *metav1.PartialObjectMetadata) {
		names[string(o.UID)] = o.Name
	})
	return names, err
}

// uids are those of all objects of a kind, in all namespaces.
func (r reads) uids(ctx context.Context, kind provenance.GroupKind) ([]string, error) {
	resource, err := r.resource(kind)
	if err != nil {
		return nil, err
	}
	var all []string
	err = r.list(ctx, resource, metav1.NamespaceAll, "", func(o *metav1.PartialObjectMetadata) { all = append(all, string(o.UID)) })
	return all, err
}

// spaces are the namespaces that a selector matches.
func (r reads) spaces(ctx context.Context, selector string) ([]*metav1.PartialObjectMetadata, error) {
	var all []*metav1.PartialObjectMetadata
	err := r.list(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"), "", selector, func(o *metav1.PartialObjectMetadata) {
		all = append(all, o)
	})
	return all, err
}

// glance is what a quick look shows.
type glance struct {
	versions map[string]delegation.Seen // of our policies and bindings
	managed  []*metav1.PartialObjectMetadata
}

// glance reads the versions of our policies and bindings, and the namespaces that bear the label. The three lists are asked for at
// once: an API server that answers lists from its cache first waits until that is as new as the question, a tenth of a second.
func (r reads) glance(ctx context.Context) (glance, error) {
	var policies, bindings map[string]delegation.Seen
	var g glance
	lists, ctx := errgroup.WithContext(ctx)
	lists.Go(func() (err error) {
		policies, err = r.versions(ctx, "validatingadmissionpolicies", policySuffix)
		return err
	})
	lists.Go(func() (err error) {
		bindings, err = r.versions(ctx, "validatingadmissionpolicybindings", bindingSuffix)
		return err
	})
	lists.Go(func() (err error) {
		g.managed, err = r.spaces(ctx, wire.LabelJobs+"="+wire.JobsManaged)
		return err
	})
	err := lists.Wait()
	if err == nil {
		g.versions = policies
		maps.Copy(g.versions, bindings)
	}
	return g, err
}

// versions are the versions of our policies, or of their bindings.
func (r reads) versions(ctx context.Context, resource, suffix string) (map[string]delegation.Seen, error) {
	found := map[string]delegation.Seen{}
	err := r.list(ctx, admission().WithResource(resource), "", partOf, func(o *metav1.PartialObjectMetadata) {
		found[o.Name+suffix] = versionOf(o)
	})
	return found, err
}

func admission() schema.GroupVersion {
	return schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
}

// policies are all policies and bindings of the cluster.
func (r reads) policies(ctx context.Context) (policyList, bindingList, error) {
	client := r.typed.AdmissionregistrationV1()
	policies, err := client.ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list the policies: %w", err)
	}
	bindings, err := client.ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list the policies' bindings: %w", err)
	}
	p, b := policyList{}, bindingList{}
	for i := range policies.Items {
		p[policies.Items[i].Name] = &policies.Items[i]
	}
	for i := range bindings.Items {
		b[bindings.Items[i].Name] = &bindings.Items[i]
	}
	return p, b, nil
}

// list reads the metadata of everything that a selector matches, as it is now, page by page.
func (r reads) list(ctx context.Context, resource schema.GroupVersionResource, namespace, selector string, each func(*metav1.PartialObjectMetadata)) error {
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, err := r.meta.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		for i := range page.Items {
			each(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// tick asks for nothing but the API server's time.
func (r reads) tick(ctx context.Context) error {
	return r.typed.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
}

// labelled is when a namespace was given its label, as far as the API server has noted who wrote it; otherwise now. Only those
// who may change namespaces could write a false time there, and they may label them, too.
func labelled(space *metav1.PartialObjectMetadata, now time.Time) time.Time {
	var last time.Time
	for _, f := range space.ManagedFields {
		if f.Time != nil && f.FieldsV1 != nil && bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"f:`+wire.LabelJobs+`"`)) && f.Time.After(last) {
			last = f.Time.Time
		}
	}
	if last.IsZero() || last.After(now) {
		return now
	}
	return last
}

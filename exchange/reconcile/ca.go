package reconcile

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// keepCA keeps the certificate in every namespace whose pods need it. The right to do so is given namespace by namespace, so the
// ConfigMaps are read one by one and not watched; one that was deleted is back within a round.
func (r *Reconciler) keepCA(ctx context.Context) {
	if r.options.CA == nil {
		return
	}
	pem, err := r.options.CA.Read()
	if err != nil || len(pem) == 0 {
		r.failed(fmt.Errorf("read the certificate: %w", orElse(err, errNoCA)), "keeping the certificate in namespaces")
		return
	}
	done := map[string]bool{}
	for _, some := range r.options.CA.selections() {
		spaces, err := r.reads.spaces(ctx, some.selector)
		if err != nil {
			r.failed(err, "keeping the certificate in namespaces")
			return
		}
		for _, space := range spaces {
			if done[space.Name] || space.DeletionTimestamp != nil || (r.guard.excluded[space.Name] && !some.named) {
				continue
			}
			done[space.Name] = true
			err := r.writeCA(ctx, space.Name, string(pem))
			switch {
			case apierrors.IsForbidden(err):
				r.happen(ctx, happening{
					kind: "Namespace", version: "v1", namespace: space.Name, name: space.Name, uid: string(space.UID), reason: eventNoRight,
					message: "Lanyard may not keep ConfigMap " + r.options.CA.ConfigMap + " here, so pods cannot verify it; " +
						"add the namespace to jobs.namespaces or its accounts to publishers",
				})
			case err != nil:
				r.failed(err, "keeping the certificate in namespaces")
			}
		}
	}
}

// selection picks namespaces; named ones are meant even where labels count for nothing.
type selection struct {
	selector string
	named    bool
}

// selections pick the namespaces whose pods need the certificate. A listed one that is not there is picked when it is.
func (c *CA) selections() []selection {
	all := []selection{{selector: wire.LabelJobs + "=" + wire.JobsManaged}}
	if c.Publishers {
		all = append(all, selection{selector: wire.LabelPublishers + "=" + wire.PublishersEnabled})
	}
	if len(c.Namespaces) > 0 {
		all = append(all, selection{selector: corev1.LabelMetadataName + " in (" + strings.Join(c.Namespaces, ",") + ")", named: true})
	}
	return all
}

// writeCA makes or mends one ConfigMap. Keys that others have put beside ours stay.
func (r *Reconciler) writeCA(ctx context.Context, namespace, pem string) error {
	maps := r.reads.typed.CoreV1().ConfigMaps(namespace)
	m, err := maps.Get(ctx, r.options.CA.ConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		m = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: r.options.CA.ConfigMap, Labels: map[string]string{"app.kubernetes.io/part-of": "lanyard"}},
			Data:       map[string]string{wire.CAFile: pem},
		}
		_, err = maps.Create(ctx, m, metav1.CreateOptions{})
	case err == nil && m.Data[wire.CAFile] != pem:
		m = m.DeepCopy()
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		m.Data[wire.CAFile] = pem
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", namespace, r.options.CA.ConfigMap, err)
	}
	return nil
}

//go:build unix

package install

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Objects are rendered objects, in the order in which helm has printed them.
type Objects []*unstructured.Unstructured

// The groups of objects that are told apart.
const (
	admission   = "admissionregistration.k8s.io"
	certManager = "cert-manager.io"
	monitoring  = "monitoring.coreos.com"
)

// useless says what a control plane without nodes has no use for, or no definition of.
func useless(kind schema.GroupKind) bool {
	return slices.Contains([]string{certManager, monitoring}, kind.Group) || slices.Contains([]schema.GroupKind{
		{Group: "apps", Kind: "Deployment"},
		{Group: "apps", Kind: "DaemonSet"},
		{Group: "apps", Kind: "StatefulSet"},
		{Group: "policy", Kind: "PodDisruptionBudget"},
	}, kind)
}

// decode reads a stream of YAML documents and leaves out what is useless.
func decode(manifest []byte) (Objects, error) {
	var objects Objects
	documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading what helm has printed: %w", err)
		}
		content := map[string]any{}
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, fmt.Errorf("decoding a rendered object: %w", err)
		}
		object := &unstructured.Unstructured{Object: content}
		if len(content) > 0 && !useless(object.GroupVersionKind().GroupKind()) {
			objects = append(objects, object)
		}
	}
}

// Policies are the validating admission policies and then their bindings.
func (o Objects) Policies() Objects {
	return append(o.kind("ValidatingAdmissionPolicy"), o.kind("ValidatingAdmissionPolicyBinding")...)
}

// Webhooks are the webhook configurations.
func (o Objects) Webhooks() Objects {
	return append(o.kind("MutatingWebhookConfiguration"), o.kind("ValidatingWebhookConfiguration")...)
}

// others are neither policies nor webhook configurations.
func (o Objects) others() Objects {
	return slices.DeleteFunc(slices.Clone(o), func(u *unstructured.Unstructured) bool {
		return u.GroupVersionKind().Group == admission
	})
}

// kind returns the objects of a kind of the admission group.
func (o Objects) kind(kind string) Objects {
	return slices.DeleteFunc(slices.Clone(o), func(u *unstructured.Unstructured) bool {
		return u.GroupVersionKind().GroupKind() != schema.GroupKind{Group: admission, Kind: kind}
	})
}

// WebhookConfig is the content of the webhook's configuration file, from its ConfigMap.
func (o Objects) WebhookConfig() (string, error) {
	for _, u := range o {
		if u.GetKind() == "ConfigMap" && u.GetName() == "lanyard-webhook" {
			config, found, err := unstructured.NestedString(u.Object, "data", "webhook.yaml")
			if err == nil && found {
				return config, nil
			}
		}
	}
	return "", errors.New("the chart has rendered no ConfigMap lanyard-webhook with a key webhook.yaml")
}

// Redirect has the API server call a webhook at a URL instead of one behind a Service, which no node could route to. The
// path of each entry stays.
func (o Objects) Redirect(url string, ca []byte) error {
	for _, u := range o.Webhooks() {
		entries, _, err := unstructured.NestedSlice(u.Object, "webhooks")
		if err != nil {
			return fmt.Errorf("redirecting %s: %w", u.GetName(), err)
		}
		for _, entry := range entries {
			if err := redirect(entry, url, ca); err != nil {
				return fmt.Errorf("redirecting %s: %w", u.GetName(), err)
			}
		}
		if err := unstructured.SetNestedSlice(u.Object, entries, "webhooks"); err != nil {
			return fmt.Errorf("redirecting %s: %w", u.GetName(), err)
		}
	}
	return nil
}

// redirect changes one entry.
func redirect(entry any, url string, ca []byte) error {
	fields, ok := entry.(map[string]any)
	if !ok {
		return errors.New("an entry is not an object")
	}
	path, found, err := unstructured.NestedString(fields, "clientConfig", "service", "path")
	if err != nil || !found {
		return fmt.Errorf("entry %v has no clientConfig.service.path", fields["name"])
	}
	fields["clientConfig"] = map[string]any{"url": url + path, "caBundle": base64.StdEncoding.EncodeToString(ca)}
	return nil
}

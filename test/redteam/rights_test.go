//go:build unix

package redteam

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

const rbac = "/apis/rbac.authorization.k8s.io/v1/"

// made is an object with the path below its group that it is made at.
type made struct {
	path string
	body object
}

// grant gives a user a ClusterRole in a namespace.
func (w *world) grant(ctx context.Context, namespace, role, user string) error {
	a := w.root().do(ctx, http.MethodPost, rbac+"namespaces/"+namespace+"/rolebindings", object{
		"metadata": object{"generateName": "grant-"},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{object{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	})
	if a.code != http.StatusCreated {
		return fmt.Errorf("granting %s in %s to %s: %s", role, namespace, user, a.message)
	}
	return nil
}

// provisionerRole lets the provisioner write namespaces, as self-service portals may.
func provisionerRole() []made {
	return []made{
		{"clusterroles", object{
			"metadata": object{"name": "red-provisioner"},
			"rules": []any{object{
				"apiGroups": []string{""}, "resources": []string{"namespaces", "namespaces/status", "namespaces/finalize"},
				"verbs": []string{"get", "create", "update", "patch", "delete"},
			}},
		}},
		{"clusterrolebindings", object{
			"metadata": object{"name": "red-provisioner"},
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "red-provisioner"},
			"subjects": []any{object{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": provisioner}},
		}},
	}
}

// awaitRights waits until the API server knows what was granted last.
func (w *world) awaitRights(ctx context.Context) error {
	for _, q := range []struct{ user, namespace, verb, resource string }{
		{provisioner, "", "create", "namespaces"}, {bystander, managed, "create", "pods"}, {helper, managed, "create", "pods"},
		{attacker, managed, "create", "pods"}, {attacker, plain, "create", "pods"}, {attacker, publishing, "create", "pods"},
		{attacker, both, "create", "pods"}, {attacker, listed, "create", "pods"}, {attacker, baseline, "create", "pods"},
	} {
		if err := await(ctx, func(ctx context.Context) (bool, error) {
			return w.may(ctx, w.as(q.user), q.namespace, q.verb, "", q.resource), nil
		}); err != nil {
			return fmt.Errorf("waiting for the rights of %s in %s: %w", q.user, q.namespace, err)
		}
	}
	return nil
}

// may asks the API server what a client may do. The resource may have a subresource after a slash.
func (w *world) may(ctx context.Context, c *client, namespace, verb, group, resource string) bool {
	resource, sub, _ := strings.Cut(resource, "/")
	a := c.do(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", object{"spec": object{
		"resourceAttributes": object{"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": sub},
	}})
	var review struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	return json.Unmarshal(a.body, &review) == nil && review.Status.Allowed
}

// account makes a service account, "namespace/name".
func (c *client) account(ctx context.Context, account string) error {
	namespace, name, _ := strings.Cut(account, "/")
	a := c.do(ctx, http.MethodPost, at(namespace, "serviceaccounts"), object{"metadata": object{"name": name}})
	if a.code != http.StatusCreated {
		return fmt.Errorf("making service account %s: %s", account, a.message)
	}
	return nil
}

// may asks until a client may do something.
func may(w *world, c *client, namespace, verb, group, resource string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) { return w.may(ctx, c, namespace, verb, group, resource), nil }
}

//go:build unix

package redteam

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster/exchange"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// The exchange that the attacks of the list X are tried on: the program, on SQLite, with the chart's rights and policies.
const (
	exchangeUser = "system:serviceaccount:lanyard-system:lanyard-exchange"
	recordsAdmin = "lanyard-system/records-admin"
	redNode      = "red-worker"
	otherNode    = "red-taken"
	tokenPath    = "/apis/auth/token"
)

// exchanging is the world with the exchange. It is started by the first test that asks for it. Tests that ask are not parallel: some
// take policies away, or the exchange.
type exchanging struct {
	*world
	t       *testing.T
	program *exchange.Program
	dir     string // of the database
	admin   string // an admin's token
}

// withExchange returns the world with the exchange running, and all that is made from now on confirmed.
func withExchange(t *testing.T) *exchanging {
	t.Helper()
	w := redteam(t)
	w.exchange.once.Do(func() { w.exchange.err = w.startExchange(t) })
	if w.exchange.err != nil {
		t.Fatal(w.exchange.err)
	}
	x := &exchanging{world: w, t: t, program: w.exchange.program, dir: w.exchange.dir}
	x.admin = x.request(w.root(), "lanyard-system", "records-admin", "lanyard-admin", nil)
	x.settled()
	return x
}

func (w *world) startExchange(t *testing.T) error {
	binary, err := exchange.Build(t.Context(), os.Stderr)
	if err != nil {
		return err
	}
	policies, err := w.in.Objects().ExchangePolicies()
	if err != nil {
		return err
	}
	file := w.cp.Path("exchange-policies.json")
	w.exchange.dir = w.cp.Path("exchange-records")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		return err
	}
	kubeconfig, err := w.cp.Kubeconfig(exchangeUser)
	if err != nil {
		return err
	}
	config := "issuer: https://exchange.example\nkeys: {secret: lanyard-system/lanyard-exchange-keys}\nstore: {directory: " + w.exchange.dir + "}\n" +
		"reconcile: {policies: " + file + "}\nallowedSubmitterServiceAccounts: [red-plain/submitter]\n" +
		"claims: {groups: true, subjects: [{subject: " + bystander + ", groups: [ml]}]}\n"
	p, err := exchange.New(w.cp, exchange.Options{Name: "redteam", Binary: binary, Config: config, Kubeconfig: kubeconfig})
	if err != nil {
		return err
	}
	if out, err := p.Command(t.Context(), "migrate"); err != nil {
		return fmt.Errorf("migrate: %w: %s", err, out)
	}
	for _, name := range []string{redNode, otherNode} {
		if a := w.root().do(t.Context(), http.MethodPost, "/api/v1/nodes", object{"metadata": object{"name": name}}); a.code != http.StatusCreated {
			return fmt.Errorf("making node %s: %s", name, a.message)
		}
	}
	if err := w.root().account(t.Context(), recordsAdmin); err != nil {
		return err
	}
	for _, o := range recordsRole() {
		if a := w.root().do(t.Context(), http.MethodPost, rbac+o.path, o.body); a.code != http.StatusCreated {
			return fmt.Errorf("making %s: %s", o.path, a.message)
		}
	}
	w.exchange.program = p
	return p.Start(context.WithoutCancel(t.Context()))
}

// recordsRole lets the account look at records.
func recordsRole() []made {
	return []made{
		{"clusterroles", object{
			"metadata": object{"name": "red-records"},
			"rules":    []any{object{"apiGroups": []string{"lanyard.dev"}, "resources": []string{"records"}, "verbs": []string{"get", "list", "patch"}}},
		}},
		{"clusterrolebindings", object{
			"metadata": object{"name": "red-records"},
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "red-records"},
			"subjects": []any{object{"kind": "ServiceAccount", "namespace": "lanyard-system", "name": "records-admin"}},
		}},
	}
}

// settled waits until a pod that is made now is confirmed.
func (x *exchanging) settled() {
	x.t.Helper()
	eventually(x.t, "the exchange confirms what is made now", func(context.Context) (bool, error) {
		return x.exchanged(x.token(x.bound(x.as(bystander).pod(x.t, managed)))).code == http.StatusOK, nil
	})
}

// bound puts a pod that was made onto the node.
func (x *exchanging) bound(a answer) object {
	x.t.Helper()
	o := a.accepted(x.t)
	x.bind(o, redNode)
	return o
}

func (x *exchanging) bind(pod object, node string) {
	x.t.Helper()
	name := text(pod, "metadata", "name")
	x.root().do(x.t.Context(), http.MethodPost, at(text(pod, "metadata", "namespace"), "pods")+"/"+name+"/binding", object{
		"apiVersion": "v1", "kind": "Binding", "metadata": object{"name": name}, "target": object{"kind": "Node", "name": node},
	}).accepted(x.t)
}

// token is a pod's subject token, as its kubelet requests it; the API server's picture of where the pod is may be late.
func (x *exchanging) token(pod object) string {
	x.t.Helper()
	namespace := text(pod, "metadata", "namespace")
	return x.request(x.as("system:node:"+redNode, "system:nodes", "system:masters"), namespace, text(pod, "spec", "serviceAccountName"), jobAudience, pod)
}

func (x *exchanging) request(c *client, namespace, account, audience string, pod object) (token string) {
	x.t.Helper()
	eventually(x.t, "a token is given", func(ctx context.Context) (bool, error) {
		a := x.tokenRequest(ctx, c, namespace, account, audience, pod)
		if a.code == http.StatusCreated {
			token = text(decoded(x.t, string(a.body)), "status", "token")
			return true, nil
		}
		return false, fmt.Errorf("%d: %s", a.code, a.message)
	})
	return token
}

func (x *exchanging) tokenRequest(ctx context.Context, c *client, namespace, account, audience string, pod object) answer {
	spec := object{"audiences": []string{audience}}
	if pod != nil {
		spec["boundObjectRef"] = object{"kind": "Pod", "apiVersion": "v1", "name": text(pod, "metadata", "name"), "uid": text(pod, "metadata", "uid")}
	}
	return c.do(ctx, http.MethodPost, at(namespace, "serviceaccounts")+"/"+account+"/token", object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec,
	})
}

// granted is what the exchange has answered.
type granted struct {
	code   int
	body   map[string]any
	claims map[string]any // of the access token
}

// exchanged sends a subject token, with more parameters of the form.
func (x *exchanging) exchanged(token string, more ...string) granted {
	x.t.Helper()
	return x.exchangedBy(x.program.Client, token, more...)
}

func (x *exchanging) exchangedBy(c *http.Client, token string, more ...string) granted {
	x.t.Helper()
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "client_id": {jobAudience},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"}, "subject_token": {token},
	}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	req, err := http.NewRequestWithContext(x.t.Context(), http.MethodPost, x.program.URL+tokenPath, strings.NewReader(form.Encode()))
	if err != nil {
		x.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := c.Do(req)
	if err != nil {
		x.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	g := granted{code: res.StatusCode}
	if err := json.Unmarshal(raw, &g.body); err != nil {
		x.t.Fatalf("no JSON: %s", raw)
	}
	if parts := strings.Split(text(g.body, "access_token"), "."); len(parts) == 3 {
		claims, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil || json.Unmarshal(claims, &g.claims) != nil {
			x.t.Fatalf("no claims: %v", err)
		}
	}
	return g
}

// acts fails the test unless a pod's token becomes this person's. A pod that is not judged yet is waited for.
func (x *exchanging) acts(pod object, want string) granted {
	x.t.Helper()
	return x.becomes(x.token(pod), want)
}

func (x *exchanging) becomes(token, want string) granted {
	x.t.Helper()
	var g granted
	eventually(x.t, "it is judged", func(context.Context) (bool, error) {
		g = x.exchanged(token)
		return g.code != http.StatusServiceUnavailable, nil
	})
	if g.code != http.StatusOK || g.claims["sub"] != want {
		x.t.Errorf("answered with %d %v for %v, want a token for %s", g.code, g.body["error"], g.claims["sub"], want)
	}
	return g
}

// denied fails the test unless a subject token is refused for good, for one of these reasons of the metric.
func (x *exchanging) denied(token string, reasons ...string) {
	x.t.Helper()
	outcomes := func() map[string]string {
		all := map[string]string{}
		for line := range strings.SplitSeq(x.program.Page("/metrics"), "\n") {
			if name, n, ok := strings.Cut(line, "\"} "); ok && strings.HasPrefix(name, "lanyard_exchange_requests_total{outcome=\"") {
				all[strings.TrimPrefix(name, "lanyard_exchange_requests_total{outcome=\"")] = n
			}
		}
		return all
	}
	before := outcomes()
	var g granted
	eventually(x.t, "it is judged", func(context.Context) (bool, error) {
		g = x.exchanged(token)
		return g.code != http.StatusServiceUnavailable, nil
	})
	if g.code != http.StatusBadRequest || g.body["error"] != "invalid_request" {
		x.t.Errorf("answered with %d %v, want 400 invalid_request", g.code, g.body)
	}
	for name, n := range outcomes() {
		if n != before[name] && !slices.Contains(append(reasons, "row_absent"), name) { // absent: not judged yet, and asked again
			x.t.Errorf("it was refused for %q, want %q", name, reasons)
		}
	}
}

// podOf waits for the pod that the Job controller makes of a Job, on the node.
func (x *exchanging) podOf(job object) object {
	x.t.Helper()
	var pod object
	eventually(x.t, "the job has a pod", func(ctx context.Context) (bool, error) {
		list := x.root().do(ctx, http.MethodGet, at(managed, "pods")+"?labelSelector=controller-uid%3D"+text(job, "metadata", "uid"), nil)
		items, _ := value(decoded(x.t, string(list.body)), "items").([]any)
		if len(items) == 0 {
			return false, nil
		}
		pod, _ = items[0].(map[string]any)
		return true, nil
	})
	x.bind(pod, redNode)
	return pod
}

// victim is a Job of the bystander's that runs, and its pod.
func (x *exchanging) victim(edits ...podtest.Edit) (job_, pod object) {
	x.t.Helper()
	made := x.as(bystander).create(x.t, managed, "batch/v1/jobs", job(edits...)).accepted(x.t)
	p := x.podOf(made)
	x.acts(p, bystander)
	return made, p
}

// records counts what the exchange remembers of a kind.
func (x *exchanging) records(kind string) (n int) {
	x.t.Helper()
	for after := ""; ; {
		req, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.program.Admin+"/admin/records/"+kind+"?after="+url.QueryEscape(after), nil)
		if err != nil {
			x.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+x.admin)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			x.t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			x.t.Fatalf("the records: %d %s %v", res.StatusCode, raw, err)
		}
		var page struct {
			Items []any  `json:"items"`
			After string `json:"after"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			x.t.Fatal(err)
		}
		if n += len(page.Items); page.After == "" {
			return n
		}
		after = page.After
	}
}

// allow gives a user rights in the managed namespace.
func (x *exchanging) allow(role, user string, rule object) {
	x.t.Helper()
	x.root().do(x.t.Context(), http.MethodPost, rbac+"clusterroles", object{"metadata": object{"name": role}, "rules": []any{rule}}).accepted(x.t)
	must(x.t, x.grant(x.t.Context(), managed, role, user))
	resource, verb := rule["resources"].([]string)[0], rule["verbs"].([]string)[0]
	eventually(x.t, user+" may "+verb+" "+resource, func(ctx context.Context) (bool, error) {
		return x.may(ctx, x.as(user), managed, verb, "", resource), nil
	})
}

// from is a client that comes from another address than everybody else here.
func (x *exchanging) from(address string) *http.Client {
	transport := x.program.Client.Transport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 5 * time.Second}).DialContext
	x.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

// path is where an object is.
func path(o object, resource string) string {
	return at(text(o, "metadata", "namespace"), resource) + "/" + text(o, "metadata", "name")
}

// gone deletes a pod at once; the controller of a Job that was suspended may have been faster.
func (x *exchanging) gone(pod object) {
	x.t.Helper()
	if a := x.root().do(x.t.Context(), http.MethodDelete, path(pod, "pods")+"?gracePeriodSeconds=0", nil); a.code != http.StatusNotFound {
		a.accepted(x.t)
	}
}

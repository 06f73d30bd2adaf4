//go:build linux

package processes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/test/cluster/exchange"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// house is a test's namespace, managed, and its submitter.
type house struct {
	*world
	t         *testing.T
	namespace string
	alice     kubernetes.Interface
	keeper    string // an admin's token
	tried     int    // pods that were made until one was confirmed
}

// house makes a managed namespace in which alice may submit.
func (w *world) house(t *testing.T) *house {
	t.Helper()
	h := &house{world: w, t: t}
	space, err := w.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "runs-", Labels: map[string]string{"lanyard.dev/jobs": "managed"}},
	}, metav1.CreateOptions{})
	must(t, err)
	h.namespace = space.Name
	t.Cleanup(func() {
		_ = w.admin.CoreV1().Namespaces().Delete(context.Background(), h.namespace, metav1.DeleteOptions{})
	})
	must(t, w.cp.AwaitServiceAccount(t.Context(), h.namespace))
	_, err = w.admin.RbacV1().RoleBindings(h.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "alice"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}, metav1.CreateOptions{})
	must(t, err)
	h.alice, err = w.client("alice", "system:authenticated")
	must(t, err)
	timing.Within(t, 2*time.Minute, "alice may list pods", func() bool {
		_, err := h.alice.CoreV1().Pods(h.namespace).List(t.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
	answer, err := w.admin.CoreV1().ServiceAccounts(release).CreateToken(t.Context(), adminAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"lanyard-admin"}},
	}, metav1.CreateOptions{})
	must(t, err)
	h.keeper = answer.Status.Token
	return h
}

// emptied makes the Secret of the keys as the chart leaves it: empty.
func (w *world) emptied(t *testing.T) {
	t.Helper()
	_, err := w.admin.CoreV1().Secrets(release).Patch(t.Context(), keySecret, types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{})
	must(t, err)
}

// database makes an empty database and returns its name.
func (w *world) database(t *testing.T) string {
	t.Helper()
	w.databases++
	name := fmt.Sprint("exchange", w.databases)
	must(t, w.pg.Exec(t.Context(), "postgres", "CREATE DATABASE "+name))
	return name
}

// onPostgres is a configuration for replicas on a database, with more.
func (w *world) onPostgres(t *testing.T, database, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "connection")
	must(t, os.WriteFile(file, []byte(w.pg.Conn(database)), 0o600))
	return w.configured("store: {driver: postgres, connectionFile: " + file + "}\nreplicas: 3\n" + more)
}

// configured is a configuration that judges pods. Unless more says otherwise the replicas hold the chart's lease.
func (w *world) configured(more string) string {
	text := "issuer: https://exchange.example\n" + more + "\n"
	if !strings.Contains(more, "keys:") {
		text += "keys: {secret: " + release + "/" + keySecret + "}\n"
	}
	if !strings.Contains(more, "reconcile:") {
		text += "reconcile: {policies: " + w.policies + ", cluster: test, lease: " + release + "/lanyard-exchange}\n"
	}
	return text
}

// command runs a subcommand of the program, and returns all that it has written.
func (w *world) command(t *testing.T, config string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "exchange.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	out, err := exec.CommandContext(t.Context(), w.binary, append(args, "--config="+file, "--kubeconfig="+w.kubeconfig)...).CombinedOutput()
	return string(out), err
}

func (w *world) migrate(t *testing.T, config string) {
	t.Helper()
	if out, err := w.command(t, config, "migrate"); err != nil {
		t.Fatalf("migrate: %v: %s", err, out)
	}
}

// templates are databases that know the policies already, with nothing else in them: an exchange on a copy confirms at once, and
// need not wait until the guard epoch of a first start has passed.
type templates struct {
	once     sync.Once
	sqlite   string // the directory
	postgres string // the database; empty where there is no PostgreSQL
}

// known makes the templates, once, both at the same time.
func (w *world) known(t *testing.T) templates {
	t.Helper()
	w.templates.once.Do(func() {
		h := w.house(t)
		w.templates.sqlite = w.cp.Path("template")
		// Both run at once, so each needs a place of its own for its mark.
		configs := []string{strings.Replace(w.onSQLite(w.templates.sqlite), "{secret: "+release+"/"+keySecret+"}", "{directory: "+t.TempDir()+"/keys}", 1)}
		w.emptied(t)
		if w.pg != nil {
			w.templates.postgres = w.database(t)
			configs = append(configs, w.onPostgres(t, w.templates.postgres, ""))
		}
		var programs []*exchange.Program
		for i, config := range configs {
			w.migrate(t, config)
			p := w.replica(t, fmt.Sprint("template-", i), config)
			must(t, p.Start(t.Context()))
			programs = append(programs, p)
		}
		for _, p := range programs {
			h.settled(p)
			must(t, p.Stop(t.Context()))
		}
	})
	return templates{sqlite: w.templates.sqlite, postgres: w.templates.postgres}
}

// onSQLite is a configuration for one process on a directory.
func (w *world) onSQLite(directory string) string {
	return w.configured("store: {directory: " + directory + "}\nreconcile: {policies: " + w.policies + ", cluster: test}\nlimits: {holdMilliseconds: 1000}")
}

// sqliteThatKnows is a directory whose database knows the policies.
func (w *world) sqliteThatKnows(t *testing.T) string {
	t.Helper()
	from, to := w.known(t).sqlite, t.TempDir()+"/records"
	copied(t, from, to)
	return to
}

// copied copies a directory of files that only we may read.
func copied(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.MkdirAll(to, 0o700))
	files, err := os.ReadDir(from)
	must(t, err)
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(from, f.Name()))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, f.Name()), content, 0o600))
	}
}

// databaseThatKnows is a database that knows the policies.
func (w *world) databaseThatKnows(t *testing.T) string {
	t.Helper()
	from := w.known(t).postgres
	w.databases++
	name := fmt.Sprint("exchange", w.databases)
	must(t, w.pg.Exec(t.Context(), "postgres", "CREATE DATABASE "+name+" TEMPLATE "+from))
	return name
}

// replica prepares a program that ends with the test; a token or a key in its log, or a line that is no JSON, fails the test.
func (w *world) replica(t *testing.T, name, config string, args ...string) *exchange.Program {
	t.Helper()
	p, err := exchange.New(w.cp, exchange.Options{Name: name, Binary: w.binary, Config: config, Kubeconfig: w.kubeconfig, Args: args})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Errorf("stop %s: %v", name, err)
		}
		if p.Process() == nil {
			return
		}
		log, err := p.Log()
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(log, "eyJhbGciOi") || strings.Contains(log, "PRIVATE KEY") {
			t.Errorf("a token or a key is in the log of %s", name)
		}
		for line := range strings.Lines(log) {
			if strings.HasSuffix(line, "\n") && !json.Valid([]byte(line)) && !strings.HasPrefix(line, "exchange: ") {
				t.Errorf("a line of %s's log is no JSON: %s", name, line)
			}
		}
		if t.Failed() {
			t.Logf("the end of %s's log:\n%s", name, log[max(0, len(log)-3000):])
		}
	})
	return p
}

// pod makes a bare pod of alice's and puts it onto the node.
func (h *house) pod(name string) *corev1.Pod {
	h.t.Helper()
	pod := h.unbound(name)
	h.bind(pod)
	return pod
}

func (h *house) unbound(name string) *corev1.Pod {
	h.t.Helper()
	pod, err := h.alice.CoreV1().Pods(h.namespace).Create(h.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false), RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
		},
	}, metav1.CreateOptions{})
	must(h.t, err)
	return pod
}

func (h *house) bind(pod *corev1.Pod) {
	h.t.Helper()
	must(h.t, h.admin.CoreV1().Pods(h.namespace).Bind(h.t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}

// subject is the subject token of a pod, as its kubelet requests it; the API server's picture of where the pod is may be late.
func (h *house) subject(pod *corev1.Pod) string {
	h.t.Helper()
	var got string
	timing.Within(h.t, 2*time.Minute, "the kubelet gets a token", func() bool {
		answer, err := h.kubelet.CoreV1().ServiceAccounts(h.namespace).CreateToken(h.t.Context(), "default", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{
				Audiences: []string{clientID}, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
			},
		}, metav1.CreateOptions{})
		if err == nil {
			got = answer.Status.Token
		}
		return err == nil
	})
	return got
}

// answer is what came back; status 0 is for nothing.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func (a answer) text(key string) string {
	s, _ := a.body[key].(string)
	return s
}

func send(ctx context.Context, client *http.Client, method, url, token, contentType, body string) answer {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := client.Do(req)
	if err != nil {
		return answer{}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	_ = json.Unmarshal(raw, &a.body) // a callout's answer has none
	return a
}

// ask exchanges a subject token.
func ask(ctx context.Context, p *exchange.Program, token string) answer {
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "client_id": {clientID},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"}, "subject_token": {token},
	}
	return send(ctx, p.Client, http.MethodPost, p.URL+"/apis/auth/token", "", "application/x-www-form-urlencoded", form.Encode())
}

// callout asks as a gateway does.
func callout(ctx context.Context, p *exchange.Program, access string) answer {
	return send(ctx, p.Client, http.MethodGet, p.URL+"/apis/auth/authenticate/x", access, "", "")
}

// revoke revokes what an object acts for.
func (h *house) revoke(p *exchange.Program, uid types.UID) answer {
	return send(h.t.Context(), http.DefaultClient, http.MethodPatch, p.Admin+"/admin/records/submission/"+string(uid), h.keeper, "application/merge-patch+json", `{"revoked": true}`)
}

// wants fails the test unless a subject token comes to this status and error.
func (h *house) wants(what string, p *exchange.Program, token string, status int, code string) answer {
	h.t.Helper()
	a := ask(h.t.Context(), p, token)
	if a.status != status || a.text("error") != code {
		said := maps.Clone(a.body)
		if said["access_token"] != nil {
			said["access_token"] = "(a token)"
		}
		h.t.Errorf("%s: %d %v, want %d %q", what, a.status, said, status, code)
	}
	return a
}

// settled makes pods until one is confirmed: what was made before the policies were seen in order never is.
func (h *house) settled(p *exchange.Program) *corev1.Pod {
	h.t.Helper()
	var pod *corev1.Pod
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for range 120 {
		<-tick.C
		h.tried++
		pod = h.pod(fmt.Sprint("first-", h.tried))
		if ask(h.t.Context(), p, h.subject(pod)).status == http.StatusOK {
			return pod
		}
	}
	h.t.Fatal("no pod was ever confirmed")
	return nil
}

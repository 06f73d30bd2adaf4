//go:build unix

package redteam

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// object is a JSON object; attacks need fields and values that typed clients would not send.
type object = podtest.Object

// client is somebody with a certificate of the API server's authority. It sends exactly the bytes it is given.
type client struct {
	w      *world
	http   *http.Client
	url    string
	header http.Header
}

// answer is what the API server said, and what it noted in its audit log.
type answer struct {
	code     int
	message  string
	body     []byte
	warnings []string
	audit    string // the request's id in the audit log
	w        *world
}

// as returns the client of a user.
func (w *world) as(user string, groups ...string) *client {
	key := strings.Join(append([]string{user}, groups...), "\n")
	if c, ok := w.clients.Load(key); ok {
		return c.(*client)
	}
	config, err := w.cp.ConfigFor(user, groups...)
	if err != nil {
		panic(err) // issuing a certificate reads nothing and calls nobody
	}
	return w.keep(key, config)
}

// root is the client of a cluster admin.
func (w *world) root() *client { return w.as("admin", "system:masters") }

func (w *world) keep(key string, config *rest.Config) *client {
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		panic(err)
	}
	c := &client{w: w, http: transport, url: config.Host, header: http.Header{}}
	w.clients.Store(key, c)
	return c
}

// with returns the client with one more header, such as Impersonate-User.
func (c *client) with(key, value string) *client {
	next := *c
	next.header = c.header.Clone()
	next.header.Add(key, value)
	return &next
}

// do sends an object; the content type of a PATCH is a merge patch's.
func (c *client) do(ctx context.Context, method, path string, body any) answer {
	raw, isRaw := body.([]byte)
	if !isRaw && body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return answer{message: err.Error()}
		}
	}
	kind := "application/json"
	if method == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	return c.send(ctx, method, path, kind, raw)
}

// send sends bytes and reads the answer.
func (c *client) send(ctx context.Context, method, path, kind string, body []byte) answer {
	a := answer{w: c.w, audit: string(uuid.NewUUID())}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		a.message = err.Error()
		return a
	}
	req.Header = c.header.Clone()
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Audit-ID", a.audit)
	res, err := c.http.Do(req)
	if err != nil {
		a.message = err.Error()
		return a
	}
	defer res.Body.Close()
	a.code = res.StatusCode
	a.warnings = res.Header.Values("Warning")
	if a.body, err = io.ReadAll(res.Body); err != nil {
		a.message = err.Error()
		return a
	}
	var status struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	}
	if json.Unmarshal(a.body, &status) == nil && status.Kind == "Status" {
		a.message = status.Message
	}
	return a
}

// create makes an object of a resource such as "pods" or "batch/v1/jobs" in a namespace.
func (c *client) create(t *testing.T, namespace, resource string, body any) answer {
	t.Helper()
	return c.do(t.Context(), http.MethodPost, at(namespace, resource), body)
}

// pod makes a pod.
func (c *client) pod(t *testing.T, namespace string, edits ...podtest.Edit) answer {
	t.Helper()
	return c.create(t, namespace, "pods", pod(edits...))
}

// debug adds an ephemeral container to a stored pod.
func (c *client) debug(t *testing.T, namespace, name string, container object) answer {
	t.Helper()
	body, err := json.Marshal(object{"spec": object{"ephemeralContainers": []any{container}}})
	if err != nil {
		t.Fatal(err)
	}
	return c.send(t.Context(), http.MethodPatch, at(namespace, "pods")+"/"+name+"/ephemeralcontainers", "application/strategic-merge-patch+json", body)
}

// at is the path of a namespace's resource: "pods", or with its group and version "batch/v1/jobs".
func at(namespace, resource string) string {
	if i := strings.LastIndexByte(resource, '/'); i >= 0 {
		return "/apis/" + resource[:i] + "/namespaces/" + namespace + "/" + resource[i+1:]
	}
	return "/api/v1/namespaces/" + namespace + "/" + resource
}

// stored decodes the object that came back.
func (a answer) stored(t *testing.T) object {
	t.Helper()
	if a.code/100 != 2 {
		t.Fatalf("it was refused with %d: %s", a.code, a.message)
	}
	var o map[string]any
	if err := json.Unmarshal(a.body, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// name is the name of the object that came back.
func (a answer) name(t *testing.T) string {
	t.Helper()
	return text(a.stored(t), "metadata", "name")
}

// annotations are what the API server has noted about the request in its audit log.
func (a answer) annotations(t *testing.T) map[string]string {
	t.Helper()
	needle := []byte(`"auditID":"` + a.audit + `"`)
	var note struct {
		Annotations map[string]string `json:"annotations"`
	}
	eventually(t, "the request is in the audit log", func(context.Context) (bool, error) {
		log, err := os.ReadFile(a.w.cp.Path("audit.log"))
		if err != nil {
			return false, err
		}
		for line := range bytes.Lines(log) {
			if bytes.Contains(line, needle) && bytes.HasSuffix(line, []byte("\n")) {
				return true, json.Unmarshal(line, &note)
			}
		}
		return false, nil
	})
	return note.Annotations
}

// text reads a string in an object, empty where there is none. A step that is a number is an index.
func text(o any, steps ...any) string {
	s, _ := value(o, steps...).(string)
	return s
}

func value(o any, steps ...any) any {
	for _, step := range steps {
		switch step := step.(type) {
		case string:
			m, isMap := o.(map[string]any)
			if !isMap {
				m, _ = o.(object)
			}
			o = m[step]
		case int:
			l, _ := o.([]any)
			if step >= len(l) {
				return nil
			}
			o = l[step]
		}
	}
	return o
}

// eventually asks until the answer is yes, and fails the test after two minutes of no.
func eventually(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := await(t.Context(), done); err != nil {
		t.Fatalf("waiting in vain until %s: %v", what, err)
	}
}

func await(ctx context.Context, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if ok {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

//go:build unix

package redteam

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// marker stands in every forged review where a secret could stand, and must come out nowhere.
const marker = "marked-token-eyJhbGciOiJFUzI1NiJ9"

func reviewPaths() []string {
	return []string{"/mutate/job", "/mutate/publisher", "/mutate/listed", "/validate/job", "/validate/publisher", "/validate/listed", "/validate/template"}
}

// forged is a body with what has to be said to it. uid: the answer is a review, else an HTTP error of this code.
type forged struct {
	body []byte
	code int
	uid  bool
}

func forgedReviews() map[string]forged {
	late := string(podtest.Review(pod(mainWith(podtest.Env("SECRET", marker))).JSON()))
	// The API server writes the uid first, so that it is known whatever is wrong after it.
	const uid = `"uid":"` + podtest.ReviewUID + `",`
	good := strings.Replace(strings.Replace(late, uid, "", 1), `"request":{`, `"request":{`+uid, 1)
	swap := func(old, new string) []byte { return []byte(strings.Replace(good, old, new, 1)) }
	deep := strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000)
	many := strings.TrimSuffix(strings.Repeat(`{"name":"A","value":"`+marker+`"},`, 100_000), ",")
	return map[string]forged{
		"nothing":                  {nil, 400, false},
		"garbage":                  {[]byte("\x00\xff" + marker), 400, false},
		"a number":                 {[]byte("1"), 400, false},
		"an empty object":          {[]byte("{}"), 400, false},
		"a list":                   {[]byte("[" + good + "]"), 400, false},
		"request is null":          {[]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`), 400, false},
		"request is a text":        {[]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":"` + marker + `"}`), 400, false},
		"another kind":             {swap("AdmissionReview", "AdmissionRevieW"), 200, true},
		"another version":          {swap("admission.k8s.io/v1", "admission.k8s.io/v2"), 400, false},
		"cut short":                {[]byte(good[:len(good)/2]), 200, true},
		"the uid comes too late":   {[]byte(strings.Replace(late, `"spec":{`, `"deep":`+deep+`,"spec":{`, 1)), 400, false},
		"something after it":       {[]byte(good + marker), 200, true},
		"two reviews":              {[]byte(good + good), 200, true},
		"request twice":            {swap(`"request":`, `"request":{"uid":"other"},"request":`), 200, true},
		"object twice":             {swap(`"object":`, `"object":{},"object":`), 200, true},
		"uid is a number":          {swap(uid, `"uid":7,`), 400, false},
		"request in capitals":      {swap(`"request":`, `"Request":`), 400, false},
		"object in capitals":       {swap(`"object":`, `"Object":`), 200, true},
		"spec twice":               {swap(`"spec":{`, `"spec":{"x":"`+marker+`"},"spec":{`), 200, true},
		"containers in capitals":   {swap(`"containers":`, `"Containers":`), 200, true},
		"containers is a text":     {swap(`"containers":[`, `"containers":"`+marker+`","x":[`), 200, true},
		"env is a number":          {swap(`"env":[`, `"env":1,"x":[`), 200, true},
		"invalid UTF-8":            {swap(marker, marker+"\xff\xfe"), 200, true},
		"deep nesting":             {swap(`"spec":{`, `"deep":`+deep+`,"spec":{`), 200, true},
		"deep nesting before all":  {[]byte(`{"x":` + deep + `,` + good[1:]), 400, false},
		"a hundred thousand env":   {swap(`"env":[`, `"env":[`+many+","), 200, true},
		"ten thousand containers":  {swap(`"containers":[`, `"containers":[`+strings.Repeat(`{"name":"x"},`, 10_000)), 200, true},
		"a namespace of another":   {swap(`"namespace":"team"`, `"namespace":"kube-system"`), 200, true},
		"no user":                  {swap(`"username":"alice"`, `"username":""`), 200, true},
		"groups is a text":         {swap(`"groups":[`, `"groups":"system:nodes","x":[`), 200, true},
		"deletion":                 {swap(`"CREATE"`, `"DELETE"`), 200, true},
		"connection":               {swap(`"CREATE"`, `"CONNECT"`), 200, true},
		"an operation of ours":     {swap(`"CREATE"`, `"`+marker+`"`), 200, true},
		"a Secret":                 {[]byte(strings.NewReplacer(`"Pod"`, `"Secret"`, `"pods"`, `"secrets"`).Replace(good)), 200, true},
		"a subresource":            {swap(`"operation":`, `"subResource":"exec","operation":`), 200, true},
		"an uid of a megabyte":     {swap(podtest.ReviewUID, strings.Repeat("u", 1<<20)), 200, false},
		"an uid with a line break": {swap(podtest.ReviewUID, `a\r\nb`), 200, false},
		"v1beta1":                  {swap("admission.k8s.io/v1", "admission.k8s.io/v1beta1"), 200, true},
		"as it should be":          {[]byte(good), 200, true},
	}
}

// TestForgedReviews posts them straight to every path of the process.
func TestForgedReviews(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	d := desk(t, w.in.Webhook().URL())
	for name, f := range forgedReviews() {
		t.Run(name, func(t *testing.T) {
			for _, path := range reviewPaths() {
				code, answer := d.post(t, path, f.body)
				if code != f.code {
					t.Errorf("%s answers with %d, want %d: %.300s", path, code, f.code, answer)
				}
				if bytes.Contains(answer, []byte(marker)) {
					t.Errorf("%s repeats what it was sent", path)
				}
				r := responseOf(t, answer)
				if f.uid && r.Response.UID != podtest.ReviewUID && name != "request twice" {
					t.Errorf("%s answers to the uid %q", path, r.Response.UID)
				}
				if f.uid && !r.Response.Allowed && (r.Response.Status.Message == "" || (r.Response.Status.Code != 400 && r.Response.Status.Code != 403)) {
					t.Errorf("%s refuses with %d and %q", path, r.Response.Status.Code, r.Response.Status.Message)
				}
			}
		})
	}
	alive(t, w, d)
}

// TestForgedRequests varies what is around a review.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	d := desk(t, w.in.Webhook().URL())
	good := podtest.Review(pod(mainWith(podtest.Env("SECRET", marker))).JSON())
	huge := append([]byte(`{"x":"`), bytes.Repeat([]byte("a"), 8<<20)...)
	for name, tc := range map[string]struct {
		method, path, kind string
		body               []byte
		code               int
	}{
		"GET":                     {"GET", "/mutate/job", "application/json", nil, 405},
		"PUT":                     {"PUT", "/mutate/job", "application/json", good, 405},
		"no content type":         {"POST", "/mutate/job", "", good, 415},
		"a form":                  {"POST", "/mutate/job", "application/x-www-form-urlencoded", good, 415},
		"YAML":                    {"POST", "/mutate/job", "application/yaml", good, 415},
		"a content type in vain":  {"POST", "/mutate/job", "application/json; charset=\"", good, 415},
		"a content type of parts": {"POST", "/mutate/job", "application/json; charset=utf-8", good, 200},
		"a slash after":           {"POST", "/mutate/job/", "application/json", good, 404},
		"two slashes":             {"POST", "//mutate/job", "application/json", good, 404},
		"a path upwards":          {"POST", "/validate/../mutate/job", "application/json", good, 404},
		"an escaped path":         {"POST", "/mutate%2fjob", "application/json", good, 200},
		"a query":                 {"POST", "/mutate/job?timeout=10s", "application/json", good, 200},
		"capitals":                {"POST", "/Mutate/Job", "application/json", good, 404},
		"the root":                {"POST", "/", "application/json", good, 404},
		"metrics on this port":    {"GET", "/metrics", "", nil, 404},
		"profiles":                {"GET", "/debug/pprof/heap", "", nil, 404},
		"eight megabytes":         {"POST", "/validate/job", "application/json", huge, 413},
	} {
		t.Run(name, func(t *testing.T) {
			code, answer, err := d.send(t, tc.method, tc.path, tc.kind, tc.body)
			if err != nil || code != tc.code {
				t.Errorf("answers with %d (%v), want %d: %.300s", code, err, tc.code, answer)
			}
			if bytes.Contains(answer, []byte(marker)) {
				t.Error("it repeats what it was sent")
			}
		})
	}
	alive(t, w, d)
}

// TestSlowloris opens connections that send a byte now and then, or nothing, while a good caller is served all the time.
func TestSlowloris(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	addr := strings.TrimPrefix(w.in.Webhook().URL(), "https://")
	starts := []string{"", "POST /mutate/job HTTP/1.1\r\nHost: x\r\n", "POST /mutate/job HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"}
	begin, closed := time.Now(), make(chan error, 150)
	for i := range cap(closed) {
		conn, err := tls.Dial("tcp", addr, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // the other side has closed it already
		if _, err := io.WriteString(conn, starts[i%len(starts)]); err != nil {
			t.Fatal(err)
		}
		go func() {
			if err := conn.SetReadDeadline(begin.Add(30 * time.Second)); err != nil {
				closed <- err
				return
			}
			_, err := io.Copy(io.Discard, conn)
			closed <- err
		}()
	}
	d := desk(t, w.in.Webhook().URL())
	for range 20 {
		if code, answer := d.post(t, "/mutate/job", podtest.Review(podtest.Small())); code != http.StatusOK || !allowed(t, answer) {
			t.Errorf("a good caller is answered with %d: %.300s", code, answer)
		}
	}
	for range cap(closed) {
		if err := <-closed; err != nil && os.IsTimeout(err) {
			t.Errorf("a slow connection is still open after %s", time.Since(begin))
			return
		}
	}
}

// alive fails the test unless the process serves a good review, has not grown beyond measure and has logged no secret.
func alive(t *testing.T, w *world, d door) {
	t.Helper()
	if code, answer := d.post(t, "/mutate/job", podtest.Review(podtest.Medium())); code != http.StatusOK || !allowed(t, answer) {
		t.Errorf("a good caller is answered with %d: %.300s", code, answer)
	}
	if used := resident(t, w.in.Webhook().MetricsURL()); used > 512<<20 {
		t.Errorf("the process holds %d MiB", used>>20)
	}
	log, err := os.ReadFile(w.cp.Path("log", "webhook.log"))
	if err != nil || len(log) == 0 {
		t.Fatalf("the webhook's log has %d bytes: %v", len(log), err)
	}
	for _, bad := range []string{marker, "panic", "goroutine "} {
		if bytes.Contains(log, []byte(bad)) {
			t.Errorf("the log holds %q", bad)
		}
	}
}

// resident is the process's memory in bytes, by its own metrics.
func resident(t *testing.T, url string) int64 {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the metrics do not tell of memory")
	}
	used, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(fmt.Errorf("reading metrics: %w", err))
	}
	return int64(used)
}

package socket_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/dockerjob/socket"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

const spec = `{"workspace":"w","job":"j","task":"t","image":"i","env":[{"name":"A","value":"m4rk3d"}],"cpu":"500m","memory":"64Mi"}`

// TestTheSubmitterIsTheConnections: whatever a request says of itself.
func TestTheSubmitterIsTheConnections(t *testing.T) {
	t.Parallel()
	var who string
	var got dockerjob.Spec
	f := &fake{submit: func(_ context.Context, subject string, s dockerjob.Spec) (dockerjob.Job, error) {
		who, got = subject, s
		return dockerjob.Job{ID: "0a1b2c3d4e5f", State: dockerjob.Running}, nil
	}}
	d := serve(t, f, nil)
	c := d.client()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/v1/jobs?subject=alice&uid=0", strings.NewReader(spec))
	must(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "X-NMP-Principal-Id": "alice", "X-Forwarded-For": "10.0.0.1", "Authorization": "Bearer x",
	} {
		req.Header.Set(name, value)
	}
	resp, err := c.Do(req)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusCreated || who != me {
		t.Fatalf("got %d for %q", resp.StatusCode, who)
	}
	if got.CPU.MilliValue() != 500 || got.Memory.Value() != 64<<20 || got.Env[0].Value != "m4rk3d" {
		t.Errorf("the job: %+v", got)
	}
	if log := d.log.String(); strings.Contains(log, "m4rk3d") || !strings.Contains(log, `"subject":"me@example.com"`) || !strings.Contains(log, `"operation":"submit"`) {
		t.Errorf("the log: %s", log)
	}
	if n := d.count("submit", "done"); n != 1 {
		t.Errorf("%v submissions are counted", n)
	}
}

func TestWhoSubmitsNothingIsToldSo(t *testing.T) {
	t.Parallel()
	d := serve(t, &fake{}, func(o *socket.Options) { o.Submitters.Listed = nil })
	for _, path := range []string{"/v1/jobs", "/v1/jobs/0a1b2c3d4e5f/logs", "/v1/jobs/0a1b2c3d4e5f/wait", "/", "/v2"} {
		status, _, f := d.ask(http.MethodGet, path, "")
		if status != http.StatusForbidden || f.Code != jobs.Forbidden || !strings.Contains(f.Message, "docker.submitters") {
			t.Errorf("%s: %d %+v", path, status, f)
		}
	}
}

func TestARequestThatIsNone(t *testing.T) {
	t.Parallel()
	d := serve(t, &fake{}, nil)
	tests := map[string]struct{ body, field, want string }{
		"no JSON":                {"x", "", "is not well-formed JSON"},
		"an unknown member":      {`{"image":"i","mounts":["/:/host"]}`, "/mounts", "is not what a submission has there"},
		"a member that is none":  {`{"image":5}`, "/image", "is not what a submission has there"},
		"a member twice":         {`{"image":"i","image":"j"}`, "", "is not well-formed JSON"},
		"an amount that is none": {`{"cpu":"m4rk3d"}`, "/cpu", "is not what a submission has there"},
		"an amount without end":  {`{"cpu":"1e2147483647"}`, "/cpu", "is not what a submission has there"},
		"a number without end":   {`{"memory":1e2147483647}`, "/memory", "is not what a submission has there"},
		"a list of amounts":      {`{"memory":["1Mi"]}`, "/memory", "is not what a submission has there"},
		"something behind it":    {spec + "{}", "", "is not well-formed JSON"},
		"more than a submission": {`{"image":"` + strings.Repeat("x", 1<<20) + `"}`, "", "longer than 512 KiB"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status, _, f := d.ask(http.MethodPost, "/v1/jobs", tc.body)
			if status != http.StatusBadRequest || f.Code != jobs.Invalid || len(f.Faults) != 1 || f.Faults[0].Field != tc.field || !strings.Contains(f.Faults[0].Message, tc.want) {
				t.Errorf("got %d %+v", status, f)
			}
		})
	}
	resp, err := d.client().Post("http://x/v1/jobs", "text/plain", strings.NewReader(spec))
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("another type: %d", resp.StatusCode)
	}
	if strings.Contains(d.log.String(), "m4rk3d") {
		t.Error("a value is in the log")
	}
}

func TestWhatTheBackendSays(t *testing.T) {
	t.Parallel()
	invalid := &dockerjob.InvalidError{Faults: field.ErrorList{field.Forbidden(field.NewPath("env").Index(1).Child("name"), "is set by the platform")}}
	tests := map[string]struct {
		err    error
		status int
		code   jobs.Code
		want   string // in the message
	}{
		"no job":              {dockerjob.ErrNotFound, 404, jobs.NotFound, "no such job"},
		"several":             {dockerjob.ErrAmbiguous, 409, jobs.Conflict, "use the id"},
		"one already":         {dockerjob.ErrExists, 409, jobs.Conflict, "runs already"},
		"a volume before us":  {fmt.Errorf("make the volume: %w", dockerjob.ErrForeignVolume), 409, jobs.Conflict, "is not the platform's"},
		"too many":            {dockerjob.ErrTooMany, 429, jobs.TooMany, "too many jobs"},
		"no image":            {dockerjob.ErrNoImage, 400, jobs.Invalid, "docker pull"},
		"a start that failed": {fmt.Errorf("%w: no\nsuch file", dockerjob.ErrStart), 400, jobs.Invalid, "did not start: no; such file"},
		"a bad image":         {fmt.Errorf("%w: stands in the way", dockerjob.ErrImage), 400, jobs.Invalid, "stands in the way"},
		"a subject":           {dockerjob.ErrSubmitter, 403, jobs.Forbidden, "may not submit"},
		"no Engine":           {fmt.Errorf("%w: dial /var/run/s3cret.sock", dockerjob.ErrEngine), 503, jobs.Unavailable, "the Docker Engine is unavailable"},
		"no database":         {fmt.Errorf("%w: disk", dockerjob.ErrStore), 503, jobs.Unavailable, "the database is unavailable"},
		"no way to us":        {fmt.Errorf("%w: network \"bridge\": no gateway", dockerjob.ErrUnreachable), 503, jobs.Unavailable, "no job is started, for it could not reach the exchange: network \"bridge\": no gateway"},
		"the end":             {dockerjob.ErrClosed, 503, jobs.Unavailable, "stopping"},
		"interrupted":         {dockerjob.ErrInterrupted, 503, jobs.Unavailable, "ask again"},
		"a deadline":          {context.DeadlineExceeded, 503, jobs.Unavailable, ""},
		"faults":              {invalid, 400, jobs.Invalid, "is refused"},
		"anything else":       {errors.New("s3cret"), 500, jobs.Failed, "the exchange's log says why"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := serve(t, &fake{err: tc.err}, nil)
			status, text, f := d.ask(http.MethodPost, "/v1/jobs", spec)
			if status != tc.status || f.Code != tc.code || !strings.Contains(f.Message, tc.want) || strings.Contains(text, "s3cret") {
				t.Errorf("got %d %s", status, text)
			}
			if tc.err == error(invalid) && (len(f.Faults) != 1 || f.Faults[0] != jobs.Fault{Field: "env[1].name", Message: "is set by the platform"}) {
				t.Errorf("faults %+v", f.Faults)
			}
		})
	}
}

// TestAStartThatFailedIsNotQuoted: the user is told what the Engine said, which quotes the command; the log and the audit line are not.
func TestAStartThatFailedIsNotQuoted(t *testing.T) {
	t.Parallel()
	d := serve(t, &fake{err: fmt.Errorf("write the proof: %w: exec: \"/m4rk3d\": no such file", dockerjob.ErrStart)}, nil)
	if status, text, _ := d.ask(http.MethodPost, "/v1/jobs", spec); status != http.StatusBadRequest || !strings.Contains(text, "m4rk3d") {
		t.Errorf("the user is told %d %s", status, text)
	}
	if log := d.log.String(); strings.Contains(log, "m4rk3d") || !strings.Contains(log, `"cause":"the container did not start"`) {
		t.Errorf("the log: %s", log)
	}
}

// TestAUserWhoLeavesLearnsWhatCameOfIt: who closes the half of the connection that we read has called the submission off, and reads on the
// other whether that came in time.
func TestAUserWhoLeavesLearnsWhatCameOfIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"in time":  {context.Canceled, `503 Service Unavailable {"code":"unavailable","message":"the request was called off, and nothing is left of it"}`},
		"too late": {nil, `201 Created {"id":"0a1b2c3d4e5f"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := make(chan struct{})
			d := serve(t, &fake{submit: func(ctx context.Context, _ string, _ dockerjob.Spec) (dockerjob.Job, error) {
				close(begun)
				<-ctx.Done()
				return dockerjob.Job{ID: "0a1b2c3d4e5f"}, tc.err
			}}, nil)
			c, err := net.Dial("unix", d.path)
			must(t, err)
			defer func() { _ = c.Close() }()
			_, err = fmt.Fprintf(c, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(spec), spec)
			must(t, err)
			timing.Next(t, time.Minute, "the job is being started", begun)
			must(t, c.(*net.UnixConn).CloseWrite())
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			if got := resp.Status + " " + string(body); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestAfterAStartNobodyIsToldThatThereIsNoJob: jobs that run are not known before containers and rows have been compared.
func TestAfterAStartNobodyIsToldThatThereIsNoJob(t *testing.T) {
	t.Parallel()
	d := serve(t, &fake{err: dockerjob.ErrNotFound, ready: dockerjob.ErrEngine}, nil)
	if status, _, f := d.ask(http.MethodGet, "/v1/jobs/0a1b2c3d4e5f/wait", ""); status != 503 || f.Code != jobs.Unavailable {
		t.Errorf("got %d %+v", status, f)
	}
	empty := serve(t, &fake{ready: dockerjob.ErrEngine}, nil)
	if status, _, _ := empty.ask(http.MethodGet, "/v1/jobs", ""); status != 503 {
		t.Errorf("an empty list: %d", status)
	}
	some := serve(t, &fake{ready: dockerjob.ErrEngine, list: []dockerjob.Job{{ID: "0a1b2c3d4e5f", State: dockerjob.Running}}}, nil)
	if status, text, _ := some.ask(http.MethodGet, "/v1/jobs", ""); status != 200 || !strings.Contains(text, "0a1b2c3d4e5f") {
		t.Errorf("jobs that are known: %d %s", status, text)
	}
}

// TestANameWithSlashesIsOne: it is escaped in the path.
func TestANameWithSlashesIsOne(t *testing.T) {
	t.Parallel()
	f := &fake{}
	d := serve(t, f, nil)
	if status, text, _ := d.ask(http.MethodPost, "/v1/jobs/w%2Fj%2Ft/stop", ""); status != 200 || f.stops() != me+" w/j/t" {
		t.Errorf("got %d %s, stopped %q", status, text, f.stops())
	}
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	d := serve(t, &fake{}, func(o *socket.Options) { o.Bounds = socket.Bounds{PerUser: 3, Total: 100} })
	var open []net.Conn
	for range 3 {
		c, err := net.Dial("unix", d.path)
		must(t, err)
		open = append(open, c)
	}
	timing.Within(t, time.Minute, "the bound is reached", func() bool {
		status, _, f := d.ask(http.MethodGet, "/v1/jobs", "")
		return status == http.StatusTooManyRequests && f.Code == jobs.TooMany
	})
	for range 10 { // far over the bound they are closed without a word
		c, err := net.Dial("unix", d.path)
		must(t, err)
		open = append(open, c)
	}
	timing.Within(t, time.Minute, "connections are closed unread", func() bool {
		all, err := d.reg.Gather()
		must(t, err)
		for _, m := range all {
			if m.GetName() == "lanyard_submit_connections_refused_total" {
				return m.GetMetric()[0].GetCounter().GetValue() > 0
			}
		}
		return false
	})
	for _, c := range open {
		must(t, c.Close())
	}
	c := d.client()
	timing.Within(t, time.Minute, "there is room again", func() bool {
		resp, err := c.Get("http://x/v1/jobs")
		if err != nil {
			return false // far over the bound until the last of them is gone
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// TestStartsTakeTurns: no more than eight of one user's at once, and none is lost.
func TestStartsTakeTurns(t *testing.T) {
	t.Parallel()
	const all = 40
	var now, most, done atomic.Int32
	gate := make(chan struct{})
	d := serve(t, &fake{submit: func(context.Context, string, dockerjob.Spec) (dockerjob.Job, error) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-gate
		now.Add(-1)
		done.Add(1)
		return dockerjob.Job{}, nil
	}}, nil)
	var wait sync.WaitGroup
	for range all {
		wait.Go(func() {
			if status, text, _ := d.ask(http.MethodPost, "/v1/jobs", spec); status != http.StatusCreated {
				t.Errorf("got %d %s", status, text)
			}
		})
	}
	timing.Within(t, time.Minute, "eight are being started", func() bool { return now.Load() == 8 })
	for n := range all {
		select {
		case gate <- struct{}{}:
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d submissions have had their turn, and no other comes", n, all)
		}
	}
	wait.Wait()
	if most.Load() != 8 || done.Load() != all {
		t.Errorf("%d at once, %d in all", most.Load(), done.Load())
	}
}

// TestWhatIsTooMuchWaitsForNoTurn: hundreds of a user's submissions may wait, and each of these would hold megabytes meanwhile.
func TestWhatIsTooMuchWaitsForNoTurn(t *testing.T) {
	t.Parallel()
	var now atomic.Int32
	gate := make(chan struct{})
	d := serve(t, &fake{submit: func(context.Context, string, dockerjob.Spec) (dockerjob.Job, error) {
		now.Add(1)
		<-gate
		return dockerjob.Job{}, nil
	}}, nil)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { _, _, _ = d.ask(http.MethodPost, "/v1/jobs", spec) })
	}
	timing.Within(t, time.Minute, "all places are taken", func() bool { return now.Load() == 8 })
	for field, body := range map[string]string{
		"env":     `"env":[{}` + strings.Repeat(",{}", 1<<16) + `]`,
		"command": `"command":[""` + strings.Repeat(`,""`, 1<<16) + `]`,
	} {
		status, _, f := d.ask(http.MethodPost, "/v1/jobs", `{"workspace":"w","job":"j","task":"t","image":"i",`+body+`}`)
		if status != http.StatusBadRequest || f.Code != jobs.Invalid || len(f.Faults) != 1 || f.Faults[0].Field != field {
			t.Errorf("%s: %d %+v", field, status, f)
		}
	}
	close(gate)
	wait.Wait()
	if now.Load() != 8 {
		t.Errorf("%d reached the backend", now.Load())
	}
}

// TestALineOfTheLogIsBounded: what a user writes into a path, or gets wrong a thousand times, fills no disk.
func TestALineOfTheLogIsBounded(t *testing.T) {
	t.Parallel()
	var many field.ErrorList
	for i := range 1000 {
		many = append(many, field.Required(field.NewPath("env").Index(i).Child("name"), "name it"))
	}
	d := serve(t, &fake{err: &dockerjob.InvalidError{Faults: many}}, nil)
	for _, ask := range [][2]string{{http.MethodPost, "/v1/jobs"}, {http.MethodGet, "/v1/jobs/" + strings.Repeat("x", 6000) + "/wait"}} {
		if status, _, _ := d.ask(ask[0], ask[1], spec); status != http.StatusBadRequest {
			t.Errorf("%s: %d", ask[0], status)
		}
	}
	for line := range strings.Lines(d.log.String()) {
		if len(line) > 1500 {
			t.Errorf("a line of %d bytes: %.200s", len(line), line)
		}
	}
	if n := strings.Count(d.log.String(), `"operation"`); n != 2 {
		t.Errorf("%d lines about requests", n)
	}
}

// TestNothingElseIsServed: no other path, no other method, and no desk without its parts.
func TestNothingElseIsServed(t *testing.T) {
	t.Parallel()
	if _, err := socket.New(socket.Options{}); err == nil || !strings.Contains(err.Error(), "jobs, metrics and bounds are needed") {
		t.Errorf("a desk without anything: %v", err)
	}
	d := serve(t, &fake{}, nil)
	for _, ask := range [][2]string{{http.MethodDelete, "/v1/jobs"}, {http.MethodGet, "/admin/records/delegation"}, {http.MethodGet, "/v1/rows"}, {http.MethodPost, "/apis/auth/token"}} {
		if status, text, _ := d.ask(ask[0], ask[1], ""); status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d %s", ask, status, text)
		}
	}
}

package socket_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// stream asks for a job's output and reads what comes, until the last frame or a cut.
func (d *desk) stream(ctx context.Context, query string) (out, errs string, end *jobs.Failure, err error) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/v1/jobs/0a1b2c3d4e5f/logs?"+query, nil)
	must(d.t, err)
	c := d.client()
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if err != nil {
		return "", "", nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != jobs.MediaFrames {
		return "", "", nil, fmt.Errorf("got %d", resp.StatusCode)
	}
	for {
		s, payload, err := jobs.ReadFrame(resp.Body)
		switch {
		case err != nil:
			return out, errs, nil, err
		case s == jobs.Stdout:
			out += string(payload)
		case s == jobs.Stderr:
			errs += string(payload)
		default:
			end = &jobs.Failure{}
			if len(payload) > 0 {
				must(d.t, json.Unmarshal(payload, end))
			}
			return out, errs, end, nil
		}
	}
}

// printed is a backend whose job has printed something.
func printed() *fake {
	return &fake{logs: func(_ context.Context, _ dockerjob.LogOptions, stdout, stderr io.Writer) error {
		for i := range 3 {
			fmt.Fprintf(stdout, "out %d\n", i)
			fmt.Fprintf(stderr, "err %d\n", i)
		}
		return nil
	}}
}

func TestOutputsAreKeptApart(t *testing.T) {
	t.Parallel()
	d := serve(t, printed(), nil)
	out, errs, end, err := d.stream(t.Context(), "")
	if out != "out 0\nout 1\nout 2\n" || errs != "err 0\nerr 1\nerr 2\n" || end == nil || end.Code != "" || err != nil {
		t.Errorf("%q, %q, %v, %v", out, errs, end, err)
	}
}

// TestWhoComesAgainGetsTheRest: at every byte at which a stream could have been cut.
func TestWhoComesAgainGetsTheRest(t *testing.T) {
	t.Parallel()
	d := serve(t, printed(), nil)
	const wholeOut, wholeErr = "out 0\nout 1\nout 2\n", "err 0\nerr 1\nerr 2\n"
	for n := 0; n <= len(wholeOut); n += 3 {
		out, errs, end, err := d.stream(t.Context(), fmt.Sprintf("skip-stdout=%d&skip-stderr=%d", n, len(wholeErr)-n))
		if out != wholeOut[n:] || errs != wholeErr[len(wholeErr)-n:] || end == nil || err != nil {
			t.Errorf("%d: %q, %q, %v", n, out, errs, err)
		}
	}
	for _, q := range []string{"skip-stdout=-1", "skip-stderr=x", "skip-stdout=99999999999999999999", "leave=never"} {
		if _, _, _, err := d.stream(t.Context(), q); err == nil || err.Error() != "got 400" {
			t.Errorf("%s: %v", q, err)
		}
	}
}

// follows is a backend whose job prints a line and goes on.
func follows(started chan<- struct{}) *fake {
	return &fake{logs: func(ctx context.Context, _ dockerjob.LogOptions, stdout, _ io.Writer) error {
		fmt.Fprintln(stdout, "on")
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
}

// TestWhoLeavesLeavesTheJobAlone: unless he has said that it is to be stopped.
func TestWhoLeavesLeavesTheJobAlone(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{"follow=true": "", "follow=true&leave=stop": me + " 0a1b2c3d4e5f"} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			started := make(chan struct{})
			f := follows(started)
			d := serve(t, f, nil)
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, _, _, err := d.stream(ctx, query)
				ended <- err
			}()
			timing.Next(t, time.Minute, "the output is being followed", started)
			leave()
			if err := timing.Next(t, time.Minute, "the reader is let go", ended); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			timing.Within(t, time.Minute, "the leaving is noticed", func() bool { return d.count("logs", "client_gone") == 1 })
			if got := f.stops(); got != want {
				t.Errorf("stopped %q, want %q", got, want)
			}
		})
	}
}

// TestTheProcessEndsAndTheJobGoesOn: whoever reads is told so, and no job is stopped, whatever becomes of its reader.
func TestTheProcessEndsAndTheJobGoesOn(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	f := follows(started)
	f.wait = func(ctx context.Context) (dockerjob.Job, error) {
		started <- struct{}{}
		<-ctx.Done()
		return dockerjob.Job{}, ctx.Err()
	}
	d := serve(t, f, nil)
	type result struct {
		end *jobs.Failure
		err error
	}
	ended, waited := make(chan result, 1), make(chan int, 1)
	go func() {
		_, _, end, err := d.stream(t.Context(), "follow=true&leave=stop")
		ended <- result{end, err}
	}()
	timing.Next(t, time.Minute, "the output is being followed", started)
	go func() {
		status, _, _ := d.ask(http.MethodGet, "/v1/jobs/0a1b2c3d4e5f/wait", "")
		waited <- status
	}()
	timing.Next(t, time.Minute, "the end is being waited for", started)
	d.stop()
	if r := timing.Next(t, time.Minute, "the stream ends with the process", ended); r.err != nil || r.end == nil || r.end.Code != jobs.Unavailable {
		t.Errorf("the stream ended with %+v", r)
	}
	if status := timing.Next(t, time.Minute, "the wait ends with the process", waited); status != http.StatusServiceUnavailable {
		t.Errorf("the wait ended with %d", status)
	}
	if got := f.stops(); got != "" {
		t.Errorf("stopped %q", got)
	}
}

// TestAnOutputThatBreaksOff is told from one that ends.
func TestAnOutputThatBreaksOff(t *testing.T) {
	t.Parallel()
	d := serve(t, &fake{logs: func(_ context.Context, _ dockerjob.LogOptions, stdout, _ io.Writer) error {
		fmt.Fprintln(stdout, "half")
		return dockerjob.ErrInterrupted
	}}, nil)
	out, _, end, err := d.stream(t.Context(), "follow=true")
	if out != "half\n" || end == nil || end.Code != jobs.Unavailable || err != nil {
		t.Errorf("%q, %+v, %v", out, end, err)
	}
	before := serve(t, &fake{err: dockerjob.ErrInterrupted}, nil)
	if _, _, _, err := before.stream(t.Context(), ""); err == nil || err.Error() != "got 503" {
		t.Errorf("before the first byte: %v", err)
	}
}

// TestTheEndOfTheOutput: how many lines are wanted is asked of the backend; what is no number of lines, or goes with skipping, is refused.
func TestTheEndOfTheOutput(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	d := serve(t, &fake{logs: func(_ context.Context, o dockerjob.LogOptions, stdout, _ io.Writer) error {
		asked.Store(int64(o.Tail))
		_, err := io.WriteString(stdout, "x\n")
		return err
	}}, nil)
	for query, want := range map[string]struct {
		status int
		tail   int64
	}{
		"":                                  {http.StatusOK, 0},
		"tail=20":                           {http.StatusOK, 20},
		"tail=20&skip-stdout=0&follow=true": {http.StatusOK, 20},
		"tail=0":                            {http.StatusBadRequest, -1},
		"tail=-1":                           {http.StatusBadRequest, -1},
		"tail=all":                          {http.StatusBadRequest, -1},
		"tail=99999999999":                  {http.StatusBadRequest, -1},
		"tail=20&skip-stderr=1":             {http.StatusBadRequest, -1},
	} {
		asked.Store(-1)
		if status, text, _ := d.ask(http.MethodGet, "/v1/jobs/0a1b2c3d4e5f/logs?"+query, ""); status != want.status || asked.Load() != want.tail {
			t.Errorf("%s: %d %q, %d lines were asked for", query, status, text, asked.Load())
		}
	}
}

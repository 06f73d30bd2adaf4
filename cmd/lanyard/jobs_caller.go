package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// envSocket names the socket where --socket is not given.
const envSocket = "LANYARD_SOCKET"

// jobsCaller speaks to the exchange's socket. Who calls is told by the kernel; nothing here says it.
type jobsCaller struct {
	socket string
	http   *http.Client
}

func newJobsCaller(socket string) *jobsCaller {
	if socket == "" {
		socket = os.Getenv(envSocket)
	}
	if socket == "" {
		socket = jobs.DefaultSocket
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &jobsCaller{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}}
}

// failure is an answer that is not the one hoped for.
type failure struct {
	jobs.Failure
	status int
}

func (f *failure) Error() string { return f.Message }

// errAway: nobody answers at the socket, or the answer was cut short.
var errAway = errors.New("the exchange does not answer")

// submit asks for a job, and returns once it runs.
func (c *jobsCaller) submit(ctx context.Context, spec jobspec.Spec) (jobs.Job, error) {
	body, err := json.Marshal(spec)
	if err != nil {
		return jobs.Job{}, fmt.Errorf("write the job down: %w", err)
	}
	return askJSON[jobs.Job](ctx, c, http.MethodPost, jobs.PathJobs, body)
}

func (c *jobsCaller) list(ctx context.Context) ([]jobs.Job, error) {
	list, err := askJSON[jobs.List](ctx, c, http.MethodGet, jobs.PathJobs, nil)
	return list.Jobs, err
}

func (c *jobsCaller) stop(ctx context.Context, ref string) (jobs.Job, error) {
	return askJSON[jobs.Job](ctx, c, http.MethodPost, at(jobs.PathStop, ref), nil)
}

func (c *jobsCaller) wait(ctx context.Context, ref string) (jobs.Job, error) {
	return askJSON[jobs.Job](ctx, c, http.MethodGet, at(jobs.PathWait, ref), nil)
}

// at is the path for a job.
func at(path, ref string) string { return strings.ReplaceAll(path, "{id}", url.PathEscape(ref)) }

// askJSON sends a request and reads its answer.
func askJSON[T any](ctx context.Context, c *jobsCaller, method, path string, body []byte) (T, error) {
	var got T
	resp, err := c.ask(ctx, method, path, body)
	if err != nil {
		return got, err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return got, fmt.Errorf("%w: its answer was cut short", errAway)
	}
	return got, nil
}

// ask sends a request; an answer other than 2xx is a *failure.
func (c *jobsCaller) ask(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://exchange"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the exchange: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(ctx, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	f := &failure{status: resp.StatusCode}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(raw, &f.Failure) != nil || f.Message == "" {
		return nil, fmt.Errorf("what answers at %s is no exchange: HTTP status %d", c.socket, resp.StatusCode)
	}
	return nil, f
}

// unreached says what to do where nobody answers.
func (c *jobsCaller) unreached(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is no %s; does `exchange --backend docker` run on this machine?", errAway, c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("you may not submit jobs here: an operator can add you to the group of %s (usermod -aG lanyard USER); then log in again", c.socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nobody listens at %s; does `exchange --backend docker` run?", errAway, c.socket)
	default:
		return fmt.Errorf("%w: the connection to %s broke", errAway, c.socket)
	}
}

// output is where a job's outputs go, and how much went there already, for whoever has to ask again.
type output struct {
	out, err      io.Writer
	seen, seenErr int64
}

// shown says what of a job's outputs is wanted.
type shown struct {
	follow, stopWhenGone bool
	tail                 int // lines from the end, for whoever has seen nothing yet; 0 is all
}

// logs copies a job's outputs until they end. errAway says that they were cut short.
func (c *jobsCaller) logs(ctx context.Context, ref string, want shown, o *output) error {
	q := url.Values{}
	q.Set(jobs.ParamSkipOut, strconv.FormatInt(o.seen, 10))
	q.Set(jobs.ParamSkipErr, strconv.FormatInt(o.seenErr, 10))
	if want.tail > 0 {
		q.Set(jobs.ParamTail, strconv.Itoa(want.tail))
	}
	if want.follow {
		q.Set(jobs.ParamFollow, "true")
	}
	if want.stopWhenGone {
		q.Set(jobs.ParamLeave, jobs.LeaveStops)
	}
	resp, err := c.ask(ctx, http.MethodGet, at(jobs.PathLogs, ref)+"?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	for {
		stream, payload, err := jobs.ReadFrame(resp.Body)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, jobs.ErrFrame):
			return err
		case err != nil:
			return fmt.Errorf("%w: the output was cut short", errAway)
		case stream == jobs.End && len(payload) > 0:
			return fmt.Errorf("%w: the output was cut short", errAway)
		case stream == jobs.End:
			return nil
		}
		if err := o.write(stream, payload); err != nil {
			return fmt.Errorf("write the output: %w", err)
		}
	}
}

func (o *output) write(s jobs.Stream, p []byte) error {
	to, seen := o.out, &o.seen
	if s == jobs.Stderr {
		to, seen = o.err, &o.seenErr
	}
	n, err := to.Write(p)
	*seen += int64(n)
	return err
}

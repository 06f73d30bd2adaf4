//go:build linux

package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/jobs"
)

// alsoRoot lists root, as whom the tests themselves run, and starts the exchange again.
func (h *house) alsoRoot() {
	h.t.Helper()
	config, err := os.ReadFile(h.dir + "/exchange.yaml")
	must(h.t, err)
	must(h.t, h.terminate())
	must(h.t, os.WriteFile(h.dir+"/exchange.yaml", []byte(strings.Replace(string(config), "submitters: {", "submitters: {0: root@build-1, ", 1)), 0o600))
	h.start()
	h.ready()
}

// submitter is a client of the socket in this process: another program than ours, which checks nothing by itself.
type submitter struct{ http *http.Client }

func (h *house) submitter() submitter {
	return submitter{&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", h.socket())
	}}}}
}

// ask sends a request and reads its answer.
func (s submitter) ask(ctx context.Context, method, path, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://exchange"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, err
}

// whole is a job from its submission to its end, with its output.
func (s submitter) whole(ctx context.Context, i int) error {
	body := fmt.Sprintf(`{"workspace":"many","job":"job-%d","task":"main","image":%q,"command":["out","line of %d"]}`, i, plainImage, i)
	status, raw, err := s.ask(ctx, http.MethodPost, jobs.PathJobs, body)
	var job jobs.Job
	if err != nil || status != http.StatusCreated || json.Unmarshal(raw, &job) != nil {
		return fmt.Errorf("submit %d: %d %s %w", i, status, raw, err)
	}
	status, raw, err = s.ask(ctx, http.MethodGet, strings.ReplaceAll(jobs.PathLogs, "{id}", job.ID)+"?follow=true", "")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("logs of %d: %d %s %w", i, status, raw, err)
	}
	var out []byte
	for r := bytes.NewReader(raw); ; {
		stream, payload, err := jobs.ReadFrame(r)
		if err != nil {
			return fmt.Errorf("logs of %d: %w", i, err)
		}
		if stream == jobs.End {
			break
		}
		out = append(out, payload...)
	}
	status, raw, err = s.ask(ctx, http.MethodGet, strings.ReplaceAll(jobs.PathWait, "{id}", job.ID), "")
	if err != nil || json.Unmarshal(raw, &job) != nil || job.ExitCode == nil || *job.ExitCode != 0 {
		return fmt.Errorf("wait for %d: %d %s %w", i, status, raw, err)
	}
	if string(out) != fmt.Sprintf("line of %d\n", i) {
		return fmt.Errorf("%d printed %q", i, out)
	}
	return nil
}

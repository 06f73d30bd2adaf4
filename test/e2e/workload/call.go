package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

// callLine is an answer.
type callLine struct {
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	Error   string            `json:"error,omitempty"`
	Millis  int64             `json:"ms"`
}

// callFlags say what is called, and with which token.
type callFlags struct {
	job              jobFlags
	url, method      string
	headers          list
	anonymous        bool
	again            time.Duration
	want             int
	subject, insists bool
}

// list is a flag that may be given several times.
type list []string

// String shows the flag's values.
func (l *list) String() string { return strings.Join(*l, ", ") }

// Set takes one more.
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// runCall calls a URL with the access token and prints the answer. It ends with 1 when the status is not the one wanted.
func runCall(ctx context.Context, args []string, p printer) error {
	var f callFlags
	s := flags("call")
	f.job.register(s)
	s.StringVar(&f.url, "url", "", "what to call")
	s.StringVar(&f.method, "method", http.MethodGet, "how")
	s.Var(&f.headers, "header", "a further header, \"Name: value\"; may be repeated")
	s.BoolVar(&f.anonymous, "anonymous", false, "call without a token")
	s.BoolVar(&f.subject, "subject", false, "call with the subject token instead, as a job must not")
	s.BoolVar(&f.insists, "until-wanted", false, "with --again: stop at the first answer that is wanted")
	s.DurationVar(&f.again, "again", 0, "how often to call again; 0 is once")
	s.IntVar(&f.want, "want", http.StatusOK, "the status wanted")
	if err := parse(s, args); err != nil {
		return err
	}
	if f.url == "" {
		return fmt.Errorf("%w: call needs --url", errUsage)
	}
	wanted := false
	err := until(ctx, f.again, func() (bool, error) {
		line, err := f.call(ctx)
		if err != nil {
			line.Error = err.Error()
		}
		if ctx.Err() != nil {
			return true, nil
		}
		p.print(line)
		wanted = line.Status == f.want
		return wanted && f.insists, nil
	})
	if err == nil && !wanted {
		return exit(1)
	}
	return err
}

// call calls once.
func (f callFlags) call(ctx context.Context) (line callLine, err error) {
	began := time.Now()
	defer func() { line.Millis = time.Since(began).Milliseconds() }()
	req, err := http.NewRequestWithContext(ctx, f.method, f.url, nil)
	if err != nil {
		return line, fmt.Errorf("%w: --url: %w", errUsage, err)
	}
	for _, h := range f.headers {
		name, value, _ := strings.Cut(h, ":")
		req.Header.Add(textproto.TrimString(name), textproto.TrimString(value))
	}
	if err := f.present(ctx, req); err != nil {
		return line, err
	}
	web, err := webClient(f.job.caFile)
	if err != nil {
		return line, err
	}
	resp, err := web.Do(req)
	if err != nil {
		return line, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	line.Status, line.Body, line.Headers = resp.StatusCode, string(body), flat(resp.Header)
	return line, err
}

// present adds the token that is to be presented.
func (f callFlags) present(ctx context.Context, req *http.Request) error {
	switch {
	case f.anonymous:
		return nil
	case f.subject:
		subject, err := readToken(f.job.tokenFile)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+subject)
		return nil
	}
	e, err := f.job.exchange(ctx)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+e.token)
	return nil
}

// flat joins the values of each header, and keeps back what authorises.
func flat(h http.Header) map[string]string {
	out := map[string]string{}
	for name, values := range h {
		out[name] = strings.Join(values, ", ")
		if name == "Authorization" || name == "Cookie" || name == "Set-Cookie" {
			out[name] = fmt.Sprintf("(%d bytes)", len(out[name]))
		}
	}
	return out
}

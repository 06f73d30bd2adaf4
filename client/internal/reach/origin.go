// Package reach decides where a token may be sent, and how a server is trusted: by https and the platform's CA.
package reach

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Origin is where a URL leads, as scheme://host:port, in one spelling. Only https leads anywhere, and http to this machine.
func Origin(u *url.URL) (string, error) {
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	switch {
	case host == "" || u.Opaque != "":
		return "", errors.New("names no host")
	case scheme == "https" && port == "":
		port = "443"
	case scheme == "http" && port == "":
		port = "80"
	}
	switch {
	case scheme == "http" && !loopback(host):
		return "", errors.New("must be https; http is for this machine's loopback address only")
	case scheme != "https" && scheme != "http":
		return "", errors.New("must be https")
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// loopback says whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ParseURL reads a URL that a token may be sent to: no userinfo, query or fragment. An error does not show it, as it may hold
// a password.
func ParseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.User != nil:
		return nil, errors.New("must hold no user or password")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#"):
		return nil, errors.New("must have neither a query nor a fragment")
	}
	if _, err := Origin(u); err != nil {
		return nil, err
	}
	return u, nil
}

// Redact leaves out what may be a password.
func Redact(raw string) string {
	if i := strings.LastIndex(raw, "@"); i >= 0 {
		return "...@" + raw[i+1:]
	}
	return raw
}

// NoRedirect keeps an answer that sends elsewhere as it is (http.Client's CheckRedirect): whoever follows it may carry a token along.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

package client

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// originOf is where a URL leads, as scheme://host:port, in one spelling. Only https leads anywhere, and http to this machine.
func originOf(u *url.URL) (string, error) {
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

// parseURL reads a URL that a token may be sent to: no userinfo, query or fragment. An error does not show it, as it may hold
// a password.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.User != nil:
		return nil, errors.New("must hold no user or password")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#"):
		return nil, errors.New("must have neither a query nor a fragment")
	}
	if _, err := originOf(u); err != nil {
		return nil, err
	}
	return u, nil
}

// origins are the places that tokens are sent to.
type origins map[string]bool

// newOrigins reads a list such as "https://api.example:8443"; a path is refused, since it would not be looked at.
func newOrigins(list []string) (origins, error) {
	set := origins{}
	for _, raw := range list {
		u, err := parseURL(raw)
		if err == nil && strings.Trim(u.Path, "/") != "" {
			err = errors.New("must end after the host and port")
		}
		if err != nil {
			return nil, fmt.Errorf("origin %q: %w", redactURL(raw), err)
		}
		origin, _ := originOf(u) // parseURL has asked
		set[origin] = true
	}
	return set, nil
}

// has says whether a URL leads to one of the origins.
func (o origins) has(u *url.URL) bool {
	origin, err := originOf(u)
	return err == nil && o[origin]
}

// redactURL leaves out what may be a password.
func redactURL(raw string) string {
	if i := strings.LastIndex(raw, "@"); i >= 0 {
		return "...@" + raw[i+1:]
	}
	return raw
}

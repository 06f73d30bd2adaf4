package settings

import (
	"errors"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/internal/config"
)

// baseURL is where the endpoints are: the issuer's host unless it is given.
func baseURL(root *config.Section, issuer string) string {
	if given := httpsURL(root, "baseURL", ""); given != "" {
		return strings.TrimSuffix(given, "/")
	}
	u, err := url.Parse(issuer)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func httpsURL(sec *config.Section, key, absent string) string {
	text := sec.Text(key, absent)
	if text == absent {
		return text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.Hostname() == "":
		sec.Fault(key, "must be an https URL; there is no plain http for what hands out tokens")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#"):
		sec.Fault(key, "must be a URL without a user, a query and a fragment")
	case u.Path != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/":
		sec.Fault(key, `must have a clean path, without "//", "." or ".."`)
	case visible(text) != nil:
		sec.Fault(key, "must be visible ASCII")
	default:
		return text
	}
	return absent
}

func word(sec *config.Section, key, absent string) string {
	text := sec.Text(key, absent)
	if text != "" && visible(text) != nil {
		sec.Fault(key, "%v", visible(text))
		return absent
	}
	return text
}

func visible(s string) error {
	if s == "" || len(s) > 512 || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errors.New("must be 1 to 512 visible ASCII characters without spaces")
	}
	return nil
}

func scopeWord(s string) error {
	if visible(s) != nil || len(s) > 256 || strings.ContainsAny(s, `"\`) {
		return errors.New("must be a scope (RFC 6749, section 3.3): visible ASCII without spaces, quotes and backslashes")
	}
	return nil
}

func headerPrefix(s string) bool {
	if len(s) < 4 || len(s) > 32 || !strings.HasPrefix(s, "X-") || !strings.HasSuffix(s, "-") {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-'
	})
}

func directory(sec *config.Section, key string) string {
	p := sec.Text(key, "")
	if p != "" && (!path.IsAbs(p) || path.Clean(p) != p || p == "/") {
		sec.Fault(key, `must be an absolute path below "/" without "//", "." or ".." and without a slash at its end`)
	}
	return p
}

func seconds(sec *config.Section, key string, absent, least, most int64) time.Duration {
	return time.Duration(sec.Int(key, absent, least, most)) * time.Second
}

func milliseconds(sec *config.Section, key string, absent, least, most int64) time.Duration {
	return time.Duration(sec.Int(key, absent, least, most)) * time.Millisecond
}

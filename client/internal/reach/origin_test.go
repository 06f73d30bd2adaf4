package reach_test

import (
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ url, origin, want string }{
		"https":                 {url: "https://X.example/a", origin: "https://x.example:443"},
		"a port":                {url: "https://x.example:8443", origin: "https://x.example:8443"},
		"a scheme in capitals":  {url: "HTTPS://x.example", origin: "https://x.example:443"},
		"loopback by name":      {url: "http://localhost:80/", origin: "http://localhost:80"},
		"loopback by address":   {url: "http://127.1.2.3", origin: "http://127.1.2.3:80"},
		"loopback by IPv6":      {url: "http://[::1]:9", origin: "http://[::1]:9"},
		"clear text":            {url: "http://x.example", want: "must be https; http is for"},
		"all addresses":         {url: "http://0.0.0.0", want: "must be https; http is for"},
		"a name that starts so": {url: "http://localhost.example", want: "must be https; http is for"},
		"another scheme":        {url: "ftp://x.example", want: "must be https"},
		"opaque":                {url: "https:x.example", want: "names no host"},
		"a port alone":          {url: "https://:443", want: "names no host"},
		"a user":                {url: "https://secret@x.example", want: "no user or password"},
		"an empty query":        {url: "https://x.example?", want: "neither a query nor a fragment"},
		"an empty fragment":     {url: "https://x.example#", want: "neither a query nor a fragment"},
		"a control character":   {url: "https://x.example/\x00secret", want: "is no URL"},
	} {
		u, err := reach.ParseURL(tc.url)
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, want %q", name, err, tc.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := reach.Origin(u); err != nil || got != tc.origin {
			t.Errorf("%s: origin %q, %v; want %q", name, got, err, tc.origin)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"https://x": "https://x", "https://u:secret@x": "...@x", "secret@": "...@"} {
		if got := reach.Redact(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

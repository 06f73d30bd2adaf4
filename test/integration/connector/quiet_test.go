//go:build linux

package connector

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// payloadAudiences reads whom a token is for.
func payloadAudiences(t *testing.T, token string) []string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	must(t, err)
	var p struct {
		Aud []string `json:"aud"`
	}
	must(t, json.Unmarshal(raw, &p))
	return p.Aud
}

// TestT34NoTokenComesOut sends tokens wherever a caller can put one, and looks at everything that the connector shows at its
// most talkative.
func TestT34NoTokenComesOut(t *testing.T) {
	h := shared.home(t)
	r := h.run()
	good, unbound, other := h.of(h.pod("here", monitor, h.node.Name)), h.token(listed, nil), h.token(monitor, nil, "another")
	forged := good[:len(good)-8] + "AAAAAAAA"
	var said strings.Builder
	for _, token := range []string{good, unbound, other, forged, " " + good, good + " x", good + ".x"} {
		for _, node := range []string{"", h.away.Name, good} {
			if err := r.send("key", token, node); err != nil {
				said.WriteString(err.Error() + "\n")
			}
		}
	}
	for _, path := range []string{"/metrics", "/readyz", "/healthz", "/debug/violations"} {
		page := r.get(path)
		if page == "" {
			t.Errorf("%s is empty, so that the test shows nothing", path)
		}
		said.WriteString(page)
	}
	said.WriteString(r.log())
	if !strings.Contains(said.String(), `"reason":"node_mismatch"`) {
		t.Error("no refusal was logged, so that the test shows nothing")
	}
	for _, token := range []string{good, unbound, other, forged} {
		for _, part := range strings.Split(token, ".")[1:] {
			if i := strings.Index(said.String(), part[:40]); i >= 0 {
				t.Errorf("a token is shown, after %q", said.String()[max(0, i-200):i])
			}
		}
	}
}

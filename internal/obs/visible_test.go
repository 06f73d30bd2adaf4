package obs_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/internal/obs"
)

// TestALineOfTheLogSteersNoTerminal: what somebody else wrote is in it, and says the same to a program.
func TestALineOfTheLogSteersNoTerminal(t *testing.T) {
	t.Parallel()
	const theirs = "a\u009b2Jb\u007f \u202e \u2028 \U000e0041 \x1b[2J Zoë 山\n"
	var out bytes.Buffer
	log, err := obs.NewLogger(&out, "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("refused", "job", theirs)
	text := out.String()
	if strings.ContainsAny(text, "\u009b\u007f\u202e\u2028\U000e0041\x1b") || strings.Count(text, "\n") != 1 || !strings.Contains(text, `\u009b2Jb\u007f \u202e `) || !strings.Contains(text, "Zoë 山") {
		t.Errorf("%q", text)
	}
	var line struct{ Job string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Job != theirs {
		t.Errorf("read back: %q, %v", line.Job, err)
	}
}

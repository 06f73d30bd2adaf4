package jobs_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/api/jobs"
)

func TestFramesComeBackAsTheyWereSent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 10_000) // more than two frames hold
	var b bytes.Buffer
	for _, f := range []struct {
		s    jobs.Stream
		text string
	}{{jobs.Stdout, "one"}, {jobs.Stderr, long}, {jobs.Stdout, "\x00\xff"}, {jobs.End, ""}} {
		if err := jobs.WriteFrame(&b, f.s, []byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	got := map[jobs.Stream]string{}
	for {
		s, payload, err := jobs.ReadFrame(&b)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[s] += string(payload)
	}
	if got[jobs.Stdout] != "one\x00\xff" || got[jobs.Stderr] != long {
		t.Errorf("stdout %q, %d bytes of stderr", got[jobs.Stdout], len(got[jobs.Stderr]))
	}
	if text, ended := got[jobs.End]; !ended || text != "" {
		t.Errorf("the end is %q, %v", text, ended)
	}
}

func TestAStreamThatIsCutShortSaysSo(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := jobs.WriteFrame(&b, jobs.Stdout, []byte("payload")); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	for n := 1; n < len(whole); n++ {
		if _, _, err := jobs.ReadFrame(bytes.NewReader(whole[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 2, 'a', 'b'})
	f.Add([]byte{9, 0, 0, 0, 0})
	f.Add([]byte{1, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, payload, err := jobs.ReadFrame(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := jobs.WriteFrame(&again, s, payload); err != nil || !bytes.HasPrefix(raw, again.Bytes()) {
			t.Errorf("a frame changes when it is written again: %v", err)
		}
	})
}

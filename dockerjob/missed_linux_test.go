package dockerjob_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/dockerjob"
)

// TestAFollowedOutputIsWhole: an Engine ends the stream of a container that has exited before all of its output was sent. One that had
// two hundred such jobs at once did so with one of them.
func TestAFollowedOutputIsWhole(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		frames int // that are sent; each is a line
		tail   int
		want   string
	}{
		"nothing is sent":                   {0, 0, "one\ntwo\nthree\n"},
		"the first line is sent":            {1, 0, "one\ntwo\nthree\n"},
		"all is sent":                       {3, 0, "one\ntwo\nthree\n"},
		"nothing of the last lines is sent": {0, 2, "two\nthree\n"},
		"all of the last lines are sent":    {2, 2, "two\nthree\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := prepare(t, sharedEngine(t), func(s *dockerjob.Settings) { s.Linger = 5 * time.Minute })
			r.before(func(w http.ResponseWriter, q *http.Request, engine http.Handler) bool {
				if !strings.HasSuffix(q.URL.Path, "/logs") || q.URL.Query().Get("follow") != "1" {
					return false
				}
				all := httptest.NewRecorder()
				engine.ServeHTTP(all, q)
				sent := all.Body.Bytes()
				end := 0
				for range tc.frames {
					end += 8 + int(binary.BigEndian.Uint32(sent[end+4:]))
				}
				w.Header().Set("Content-Type", all.Header().Get("Content-Type"))
				_, _ = w.Write(sent[:end])
				return true
			})
			r.start()
			j := r.submit(spec("said", "say", "one", "say", "two", "say", "three"))
			if _, err := r.Wait(t.Context(), alice, j.ID); err != nil { // the test's own Engine may be short of time, too
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			if err := r.Logs(t.Context(), alice, j.ID, dockerjob.LogOptions{Follow: true, Tail: tc.tail}, &out, &errs); err != nil {
				t.Fatal(err)
			}
			if out.String() != tc.want || errs.Len() > 0 {
				t.Errorf("it said %q and %q, want %q", &out, &errs, tc.want)
			}
		})
	}
}

// TestAFollowedOutputIsBrokenOff: an Engine ends the stream of a container that goes on. Whoever follows it is not told that this was all.
func TestAFollowedOutputIsBrokenOff(t *testing.T) {
	t.Parallel()
	r := prepare(t, sharedEngine(t))
	r.before(func(w http.ResponseWriter, q *http.Request, _ http.Handler) bool {
		return strings.HasSuffix(q.URL.Path, "/logs") && q.URL.Query().Get("follow") == "1" // an empty answer
	})
	r.start()
	j := r.submit(spec("goes-on", "say", "hello", "wait"))
	if err := r.Logs(t.Context(), alice, j.ID, dockerjob.LogOptions{Follow: true}, io.Discard, io.Discard); !errors.Is(err, dockerjob.ErrInterrupted) {
		t.Errorf("the follower was told %v, want that he was interrupted", err)
	}
}

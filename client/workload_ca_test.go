package client_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/client"
)

// serveOn serves a platform on a front.
func serveOn(t *testing.T, p *platform, f *front) {
	t.Helper()
	s := &http.Server{
		ErrorLog: log.New(io.Discard, "", 0), TLSConfig: f.config(), ReadHeaderTimeout: time.Minute, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(p.handle(r).body)) }),
	}
	s.SetKeepAlivesEnabled(false) // each request meets the certificate of its time
	done := make(chan struct{})
	go func() { defer close(done); _ = s.ServeTLS(f, "", "") }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	p.base = "https://" + f.Addr().String()
}

// TestAJobOutlivesItsCA: the file was looked at every half minute, so that a job failed for as long after its CA had been replaced.
func TestAJobOutlivesItsCA(t *testing.T) {
	t.Parallel()
	oldCA, oldLeaf := authority(t)
	newCA, newLeaf := authority(t)
	f, p, file := listen(t), &platform{}, filepath.Join(t.TempDir(), "ca.crt")
	f.shows(oldLeaf)
	write(t, file, oldCA)
	serveOn(t, p, f)
	w, err := client.NewWorkload(client.WorkloadOptions{TokenFile: subjectFile(t, subjectMarker), BaseURL: p.base, CAFile: file})
	must(t, err)
	t.Cleanup(w.Close)
	plain, err := w.RoundTripper(nil, "https://elsewhere.example") // no token, so that no exchange comes between
	must(t, err)
	send := func(body io.Reader) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.base+"/v1", body)
		must(t, err)
		resp, err := plain.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	bodies := map[string]func() io.Reader{
		"without a body": func() io.Reader { return nil }, "with one": func() io.Reader { return strings.NewReader("a file") },
		"with one that can be read once": func() io.Reader { return io.MultiReader(strings.NewReader("a file")) },
	}
	for what, body := range bodies {
		write(t, file, oldCA)
		f.shows(oldLeaf)
		must(t, send(body()))
		f.shows(newLeaf)
		if err := send(body()); err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("%s, before the file is replaced: %v", what, err)
		}
		write(t, file, newCA)
		if err := send(body()); err != nil {
			t.Errorf("%s, the moment that the file is replaced: %v", what, err)
		}
	}
}

// TestAnExchangeIsTriedWhenTheCAIsReplaced: whoever asks for a token in the pause after a failure gets the failure, unless what it was
// about has gone.
func TestAnExchangeIsTriedWhenTheCAIsReplaced(t *testing.T) {
	t.Parallel()
	oldCA, _ := authority(t)
	newCA, newLeaf := authority(t)
	f, p, file := listen(t), &platform{}, filepath.Join(t.TempDir(), "ca.crt")
	f.shows(newLeaf)
	write(t, file, oldCA)
	serveOn(t, p, f)
	w, err := client.NewWorkload(client.WorkloadOptions{TokenFile: subjectFile(t, subjectMarker), BaseURL: p.base, CAFile: file})
	must(t, err)
	t.Cleanup(w.Close)
	if _, err := token(t, w); err == nil || client.Temporary(err) || !strings.Contains(err.Error(), "unknown authority") {
		t.Fatalf("with the old CA: %v", err)
	}
	client.PauseFor(w, time.Hour)
	if _, err := token(t, w); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("in the pause: %v", err)
	}
	write(t, file, newCA)
	holds(t, w, 1)
}

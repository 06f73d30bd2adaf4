//go:build unix

package redteam

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// The flood: so many requests at a time, each with so large a body, are several times what the process may hold.
const (
	floodSize = 500
	floodBody = 1 << 20
)

// stalled is a body that holds back its end until it is let go.
type stalled struct {
	io.Reader
	end   io.Reader
	letGo <-chan struct{}
	ctx   context.Context
}

// Read implements io.Reader.
func (s *stalled) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != io.EOF || s.end == nil {
		return n, err
	}
	select {
	case <-s.letGo:
	case <-s.ctx.Done():
		return n, s.ctx.Err()
	}
	s.Reader, s.end = s.end, nil
	return n, nil
}

// TestFlood sends five hundred large reviews that all hold back their last bytes. Most are turned away with 429, none is
// answered wrongly, memory stays bounded, and a good caller is served all the while, since its review is small.
func TestFlood(t *testing.T) {
	w := redteam(t)
	large := podtest.Review(pod(mainWith(podtest.Env("FILLER", string(bytes.Repeat([]byte("x"), floodBody))+marker))).JSON())
	d, good := desk(t, w.in.Webhook().URL()), desk(t, w.in.Webhook().URL())
	var flood sync.WaitGroup
	codes, letGo, tired := make(chan int, floodSize), make(chan struct{}), make(chan struct{})
	for range floodSize {
		flood.Go(func() { codes <- d.stall(t, large, letGo) })
	}
	go func() { flood.Wait(); close(tired) }()
	served, tries, counts := 0, 0, map[int]int{}
	for open := true; open; {
		select {
		case code := <-codes:
			if counts[code]++; counts[http.StatusTooManyRequests] == floodSize/4 {
				close(letGo) // a quarter was turned away; the others may go on
			}
			continue
		case <-tired:
			open = len(codes) > 0
			continue
		case <-time.After(5 * time.Millisecond): // other tests need the processors, too
		}
		tries++
		code, answer := good.post(t, "/mutate/job", podtest.Review(podtest.Small()))
		switch {
		case code == http.StatusOK && allowed(t, answer):
			served++
		case code != http.StatusTooManyRequests:
			t.Errorf("the good caller is answered with %d: %.300s", code, answer)
		}
	}
	t.Logf("the flood was answered %v (0: cut off); the good caller was served %d times of %d", counts, served, tries)
	if counts[http.StatusTooManyRequests] < floodSize/4 {
		t.Errorf("%d were turned away, want a quarter at least", counts[http.StatusTooManyRequests])
	}
	for code := range counts {
		if code != 0 && code != http.StatusOK && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout {
			t.Errorf("the flood was answered with %d", code)
		}
	}
	if served < tries/2 || served == 0 {
		t.Errorf("the good caller was served %d times of %d", served, tries)
	}
	alive(t, w, good)
}

// stall sends a body but for its end. The result is the status code, 0 if the connection was cut, -1 if the answer repeats
// what was sent.
func (d door) stall(t *testing.T, body []byte, letGo <-chan struct{}) int {
	cut := len(body) - 10
	reader := &stalled{Reader: bytes.NewReader(body[:cut]), end: bytes.NewReader(body[cut:]), letGo: letGo, ctx: t.Context()}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/validate/job", reader)
	if err != nil {
		return -1
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "application/json")
	res, err := d.http.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && bytes.Contains(answer, []byte(marker)) {
		return -1
	}
	return res.StatusCode
}

package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/timing"
	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

func limited(l settings.Limits) func(*Options) {
	return func(o *Options) { o.Settings.Limits = l }
}

// blocking replaces the pod's room by one that waits.
func blocking(inside chan<- struct{}, goOn <-chan struct{}) func(*Options) {
	return func(o *Options) {
		o.Rooms.Pod = func(mutate.Request, mutate.Rules) (mutate.Decision, error) {
			inside <- struct{}{}
			<-goOn
			return mutate.Decision{Outcome: mutate.Skipped}, nil
		}
	}
}

// untouched is a body that must not be read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body is read although there is no room for it")
	return 0, io.EOF
}

func TestOverloadIsAnsweredBeforeReading(t *testing.T) {
	t.Parallel()
	body := ask{}.body()
	tests := map[string]settings.Limits{
		"when too many calls are in flight": {MaxBodyBytes: 1 << 20, MaxInFlight: 1, MaxInFlightBytes: 1 << 20},
		"when too many bytes are in flight": {MaxBodyBytes: 1 << 20, MaxInFlight: 9, MaxInFlightBytes: int64(len(body))},
	}
	for name, limits := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inside, goOn := make(chan struct{}), make(chan struct{})
			d, _ := newDesk(t, limited(limits), blocking(inside, goOn))
			var wg sync.WaitGroup
			wg.Go(func() {
				if w := post(d, wire.PathMutateJob, body); w.Code != http.StatusOK {
					t.Errorf("first call: %d", w.Code)
				}
			})
			timing.Next(t, time.Minute, "the first call is being worked on", inside)
			r := httptest.NewRequest(http.MethodPost, wire.PathMutateJob, untouched{t})
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			if st := failed(t, w); w.Code != http.StatusTooManyRequests || st.Reason != "TooManyRequests" || w.Header().Get("Retry-After") != "1" {
				t.Errorf("second call: %d %s", w.Code, w.Body)
			}
			close(goOn)
			wg.Wait()
			go func() { <-inside }()
			if w := post(d, wire.PathMutateJob, body); w.Code != http.StatusOK {
				t.Errorf("after the first: %d", w.Code)
			}
		})
	}
}

func TestSlowBodyHoldsNothing(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t, limited(settings.Limits{MaxBodyBytes: 1 << 20, MaxInFlight: 1, MaxInFlightBytes: 1 << 20}))
	slow, feed := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		r := httptest.NewRequest(http.MethodPost, wire.PathMutateJob, slow)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Code != http.StatusRequestTimeout {
			t.Errorf("slow call: %d", w.Code)
		}
	})
	if _, err := feed.Write([]byte("{")); err != nil { // the body is being read now
		t.Fatal(err)
	}
	if w := post(d, wire.PathMutateJob, ask{}.body()); w.Code != http.StatusOK {
		t.Errorf("other call: %d", w.Code)
	}
	_ = feed.CloseWithError(io.ErrUnexpectedEOF)
	wg.Wait()
}

// TestArrivingBodiesAreBounded sends large bodies, all but their ends, until there is no room for what they hold. Each is a real pod of
// many variables, which is read once its end comes.
func TestArrivingBodiesAreBounded(t *testing.T) {
	t.Parallel()
	const room = 1 << 20
	d, _ := newDesk(t, limited(settings.Limits{MaxBodyBytes: room, MaxInFlight: 9, MaxInFlightBytes: room}))
	body := ask{object: inContainer(`"env":[` + strings.TrimSuffix(strings.Repeat(`{"name":"A","value":"x"},`, 8_000), ",") + `]`)}.body()
	type sent struct {
		end    *io.PipeWriter
		answer chan *httptest.ResponseRecorder
	}
	var arriving []sent
	for d.gate.arrival.used.Load() < room*3/4 {
		from, to := io.Pipe()
		one := sent{to, make(chan *httptest.ResponseRecorder, 1)}
		go func() {
			r := httptest.NewRequest(http.MethodPost, wire.PathMutateJob, from)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			one.answer <- w
		}()
		before := d.gate.arrival.used.Load()
		if _, err := to.Write(body[:len(body)-1]); err != nil { // returns when all of it is read
			t.Fatal(err)
		}
		if got := d.gate.arrival.used.Load(); got < before+int64(len(body)-2*freeBytes) {
			t.Fatalf("%d bytes have arrived and %d are claimed", len(body), got-before)
		}
		arriving = append(arriving, one)
	}
	if w := post(d, wire.PathMutateJob, body); w.Code != http.StatusTooManyRequests {
		t.Errorf("one more large body: %d", w.Code)
	}
	if w := post(d, wire.PathMutateJob, ask{}.body()); w.Code != http.StatusOK {
		t.Errorf("an ordinary body: %d", w.Code)
	}
	for _, one := range arriving {
		if _, err := one.end.Write(body[len(body)-1:]); err != nil {
			t.Fatal(err)
		}
		_ = one.end.Close()
		if r := reviewed(t, <-one.answer); !r.Allowed || len(r.Patch) == 0 {
			t.Errorf("a pod whose end has come: %v", r.Result)
		}
	}
	if got := d.gate.arrival.used.Load() + d.gate.bytes.used.Load(); got != 0 {
		t.Errorf("%d bytes stay claimed", got)
	}
}

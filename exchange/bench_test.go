package exchange_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/waiting"
	"github.com/lanyard-k8s/lanyard/internal/mint"
	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// BenchmarkExchange measures an ES256 exchange without the network and without the API server's share: "whole" is the handler, with the
// token's verdict remembered, the row in SQLite and the audit line encoded as JSON; the others are its parts by themselves, and the rest is what
// they leave over. "first" is a token that is new, whose review costs no more than a call.
func BenchmarkExchange(b *testing.B) {
	w := newBench(b)
	b.Run("whole", func(b *testing.B) { w.serve(b, w.token) })
	b.Run("first", func(b *testing.B) {
		for i := range b.N {
			b.StopTimer()
			token := subject(time.Duration(i).String(), subjectA, time.Now().Add(time.Hour))
			b.StartTimer()
			w.once(b, token)
		}
	})
	b.Run("review", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.reviewer.Review(b.Context(), w.token, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("store", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.store.Get(b.Context(), row()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sign", func(b *testing.B) {
		signer, err := w.keeper.Signer(time.Now())
		must(b, err)
		c := grant.Claims{
			Issuer: issuer, Subject: submitter, Actor: grant.Actor{Subject: username}, Audience: issuedA, ClientID: subjectA, IssuedAt: 1, NotBefore: 1, Expiry: 301,
		}
		for b.Loop() {
			c.ID = mint.NewID(row())
			if _, err := signer.Sign(c); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// bench is a desk on SQLite.
type bench struct {
	reviewer *tokenreview.Reviewer
	store    delegation.Store
	keeper   *keys.Keeper
	desk     *exchange.Desk
	token    string
}

// always is an API server that says yes at once.
type always struct{}

func (always) Review(context.Context, string, []string) (authenticationv1.TokenReviewStatus, error) {
	return yes(podUID), nil
}

func newBench(b *testing.B) *bench {
	b.Helper()
	w := &bench{token: good()}
	s := parse(b, "review: {failuresBurst: 1000}")
	dir := b.TempDir() + "/store"
	must(b, sqlite.Migrate(b.Context(), dir))
	store, err := sqlite.Open(b.Context(), dir)
	must(b, err)
	w.store = store
	fill := &rig{t: b, store: &delegationtest.Memory{}}
	fill.delegated()
	got, err := fill.store.Get(b.Context(), row())
	must(b, err)
	_, err = store.Confirm(b.Context(), got.Submission)
	must(b, err)
	_, err = store.Put(b.Context(), got.Row)
	must(b, err)
	shelf, err := keys.NewDirectory(b.TempDir() + "/keys")
	must(b, err)
	w.keeper, err = keys.NewKeeper(shelf, keys.Options{Alg: mint.ES256, Timing: s.Keys.Timing})
	must(b, err)
	must(b, w.keeper.Refresh(b.Context()))
	w.reviewer, err = tokenreview.NewReviewer(tokenreview.Options{Backend: always{}, Audience: subjectA, QPS: 1 << 20, Burst: 1 << 20, MaxPerPod: 16, FallbackEvery: time.Hour})
	must(b, err)
	metrics, err := exchange.NewMetrics(prometheus.NewRegistry())
	must(b, err)
	log, err := obs.NewLogger(io.Discard, "info")
	must(b, err)
	w.desk, err = exchange.NewDesk(exchange.Options{
		Settings: s, Reviewer: w.reviewer, Store: store, Keys: w.keeper, Room: waiting.New(2, 256), Metrics: metrics, Log: log,
	})
	must(b, err)
	b.Cleanup(func() {
		w.desk.Close()
		w.reviewer.Close()
		_ = store.Close()
	})
	return w
}

func (w *bench) serve(b *testing.B, token string) {
	b.ReportAllocs()
	before := spent(b)
	for b.Loop() {
		w.once(b, token)
	}
	b.ReportMetric(float64((spent(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
}

// spent is the processor time of this process: on a busy machine the clock says little.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (w *bench) once(b *testing.B, token string) {
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, wire.PathToken, strings.NewReader(form(token).Encode()))
	r.Header.Set("Content-Type", wire.FormType)
	rec := httptest.NewRecorder()
	w.desk.ServeHTTP(rec, r)
	if rec.Code != http.StatusOK {
		b.Fatalf("%d %s", rec.Code, rec.Body)
	}
}

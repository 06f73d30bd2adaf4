package obs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lanyard-k8s/lanyard/internal/places"
)

// NewRegistry is a program's own registry, with the Go runtime's and the process's collectors. The default registry is not
// used: libraries write into it, and its series would be nobody's promise.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Check is a question with an error for "no". Its text is shown to whoever asks, so it must hold no secret.
type Check func(*http.Request) error

// Handler serves /metrics from the registry, /healthz (the process answers) and /readyz (the check says so; a nil check is
// refused by never being ready).
func Handler(reg *prometheus.Registry, ready Check) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if ready == nil {
			http.Error(w, "not ready: no check", http.StatusServiceUnavailable)
			return
		}
		if err := ready(r); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	return mux
}

// NewServer is an http.Server with deadlines for every phase, for the metrics listener.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// scrapers is how many connections the metrics listener has open: whoever may scrape it could open as many as there are file descriptors
// otherwise, and the servers beside it would have none. One address may have a quarter.
const scrapers = 128

// Refused registers the counter of the connections to the metrics listener that are turned away, which every program has.
func Refused(reg prometheus.Registerer) (prometheus.Counter, error) {
	c := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lanyard_metrics_connections_refused_total",
		Help: "Connections to the metrics listener that were closed at once because there were too many, in all or from one address.",
	})
	return c, reg.Register(c)
}

// Listen listens for scrapes and probes, and counts in the registry what it turns away.
func Listen(addr string, reg prometheus.Registerer) (net.Listener, error) {
	refused, err := Refused(reg)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	return places.New(places.Share(scrapers), places.Of, nil, refused.Inc).Bound(l), nil
}

// Serve is a task that serves h on l until its context ends.
func Serve(l net.Listener, h http.Handler, log logr.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		srv := NewServer(h)
		stopped := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(stopped)
			last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := srv.Shutdown(last); err != nil {
				_ = srv.Close()
			}
		})
		defer stop()
		log.Info("serving metrics", KeyAddr, l.Addr().String())
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve metrics: %w", err)
		}
		<-stopped
		return nil
	}
}

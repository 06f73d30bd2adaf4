package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/dockerjob"
)

// Jobs are what users do with jobs; *dockerjob.Backend does. Every method is for a subject and touches no other's jobs: those are
// ErrNotFound to it.
type Jobs interface {
	Submit(ctx context.Context, subject string, spec dockerjob.Spec) (dockerjob.Job, error)
	// List gives the newest first.
	List(ctx context.Context, subject string) ([]dockerjob.Job, error)
	Logs(ctx context.Context, subject, ref string, o dockerjob.LogOptions, stdout, stderr io.Writer) error
	Stop(ctx context.Context, subject, ref string, grace time.Duration) (dockerjob.Job, error)
	Wait(ctx context.Context, subject, ref string) (dockerjob.Job, error)
	// Ready is nil once every job is known that there is.
	Ready() error
}

// Options make a Desk. Everything but Audit and Clock is needed.
type Options struct {
	Jobs       Jobs
	Submitters Submitters
	Bounds     Bounds
	Metrics    *Metrics
	Log        logr.Logger
	// Audit gets one line for each request, whatever else is logged; the zero value is Log.
	Audit logr.Logger
	// Clock is time.Now, if nil.
	Clock func() time.Time
}

// Desk answers users.
type Desk struct {
	o       Options
	audit   logr.Logger
	mux     *http.ServeMux
	starts  *starts
	rates   *rates
	closing context.Context // ends when the process is told to stop: streams end, and jobs go on
	close   context.CancelFunc
}

// New returns a Desk, or what is missing.
func New(o Options) (*Desk, error) {
	if o.Jobs == nil || o.Metrics == nil || o.Bounds.PerUser < 1 || o.Bounds.Total < 1 {
		return nil, errors.New("submitters' socket: jobs, metrics and bounds are needed")
	}
	if o.Audit.GetSink() == nil {
		o.Audit = o.Log
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	d := &Desk{o: o, audit: o.Audit.WithName("audit"), starts: newStarts(), rates: newRates(o.Clock)}
	d.closing, d.close = context.WithCancel(context.Background())
	d.mux = d.routes()
	return d, nil
}

// The deadlines of a request. Streams and waits take as long as the job.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	stopGrace     = 10 * time.Second // between SIGTERM and SIGKILL, as docker stop has it
	stopTimeout   = stopGrace + 20*time.Second
)

type callerKey struct{}

// Task is a task that serves until its context ends. Then streams end, with a word to whoever reads them, and what is under way is
// finished for as long as drain.
func (d *Desk) Task(l *Listener, drain time.Duration) func(context.Context) error {
	listener := &connections{
		UnixListener: l.UnixListener, bounds: d.o.Bounds, refused: d.o.Metrics.refused.Inc,
		failed: func(err error) { d.o.Log.Error(err, "the kernel does not tell who connects to the submitters' socket") },
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(d.serve), ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: log.New(io.Discard, "", 0), // its lines tell of broken connections alone
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, callerKey{}, c)
		},
	}
	return func(ctx context.Context) error {
		stopped := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(stopped)
			d.close()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
			defer cancel()
			if srv.Shutdown(last) != nil {
				_ = srv.Close()
			}
		})
		defer stop()
		d.o.Log.Info("users may submit", "socket", l.Addr().String())
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the submitters' socket: %w", err)
		}
		<-stopped
		return nil
	}
}

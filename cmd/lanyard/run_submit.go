package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// heeded are the signals of these that this program may be told by. Whoever started it may have had some ignored, and means it: nohup does
// with SIGHUP, and a script with SIGINT of what it starts with &. To ask for such a signal would undo that.
func heeded(all ...os.Signal) []os.Signal { return slices.DeleteFunc(all, signal.Ignored) }

// interrupts are the signals that stop a job, from now on and until stop.
func interrupts() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 4)
	if heed := heeded(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP); len(heed) > 0 { // no signal at all would mean every one
		signal.Notify(signals, heed...)
	}
	return signals, func() { signal.Stop(signals) }
}

const (
	// quietFor is how long a submission takes before somebody at a terminal is told that it waits for its turn.
	quietFor = 2 * time.Second
	// callOffWithin is how long the exchange may take to undo a submission that was called off.
	callOffWithin = time.Minute
)

// submission asks for a job, and calls that off when it is interrupted.
type submission struct {
	c     *jobsCaller
	spec  jobspec.Spec
	s     streams
	quiet time.Duration

	mu   sync.Mutex
	conn net.Conn // the request's, once there is one
}

// errNotStarted: the submission was interrupted, and the exchange has said that nothing came of it.
var errNotStarted = codedError{exitInterrupted, "interrupted; the job was not started"}

// errUnknown: it was interrupted, and nobody has said what came of it.
var errUnknown = codedError{exitInterrupted, "interrupted; the exchange has not said whether the job was started: lanyard jobs list"}

// run returns the job once it runs. An interrupt calls the submission off, and the exchange's answer is waited for all the same: it says
// whether the job was stopped from starting, or runs already. In that case the signal is put back, for whoever looks after jobs that run.
func (sub *submission) run(ctx context.Context, signals chan os.Signal) (jobs.Job, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	type answer struct {
		job jobs.Job
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		job, err := sub.c.submit(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: sub.connected}), sub.spec)
		answered <- answer{job, err}
	}()
	patient := time.NewTimer(sub.quiet)
	defer patient.Stop()
	var late <-chan time.Time
	var interrupted os.Signal
	for {
		select {
		case a := <-answered:
			var f *failure
			switch {
			case interrupted == nil:
				return a.job, a.err
			case a.err == nil:
				again(signals, interrupted)
				return a.job, nil
			case errors.As(a.err, &f), !sub.asked():
				return jobs.Job{}, errNotStarted
			default:
				return jobs.Job{}, errUnknown
			}
		case <-patient.C:
			if interrupted == nil && onTerminal(sub.s.err) {
				fmt.Fprintln(sub.s.err, "starting...")
			}
		case s := <-signals:
			if interrupted != nil {
				return jobs.Job{}, errUnknown
			}
			interrupted = s
			if !sub.callOff() {
				cancel() // nothing was sent
			}
			late = time.After(callOffWithin)
		case <-late:
			return jobs.Job{}, errUnknown
		}
	}
}

// again puts a signal back, unless so many wait that one more says nothing new.
func again(signals chan os.Signal, s os.Signal) {
	select {
	case signals <- s:
	default:
	}
}

func (sub *submission) connected(info httptrace.GotConnInfo) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.conn = info.Conn
}

// asked says whether anything can have been sent.
func (sub *submission) asked() bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.conn != nil
}

// callOff tells the exchange that the user leaves, by the connection's half that it reads, and leaves the other half for its answer. It
// says whether there was somebody to tell.
func (sub *submission) callOff() bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	half, ok := sub.conn.(*net.UnixConn)
	return ok && half.CloseWrite() == nil
}

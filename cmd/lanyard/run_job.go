package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http/httptrace"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

const runLong = `run starts a job on this machine: a container that acts for you. It finds a proof of its own at
NMP_WORKLOAD_IDENTITY_TOKEN_FILE, which the SDK (or "lanyard token" in the container) exchanges for access tokens whose subject is you.
When the job ends, the proof is worth nothing any more.

Who you are is told by the kernel; nothing that you write here changes it. The image must be on the machine. A job has an image, a
command, variables, processor and memory; it gets no mounts, devices, privileges or host networking. NMP_PRINCIPAL and the platform's
other names are refused in --env and --env-file. Standard input is not passed on.

Without --detach the job's output is shown and the exit code is the container's. Ctrl-C stops the job; a second Ctrl-C leaves it to
stop by itself. If this command is killed, or the exchange restarts, the job goes on. A signal that is ignored when the command starts,
as by nohup or by a script's &, stops nothing. The exit code is 125 where it is not the container's.`

const runExample = `  # A command in an image
  lanyard run --image trainer:1 -- python train.py --epochs 3

  # With variables and bounds
  lanyard run --image trainer:1 --env EPOCHS=3 --env-file job.env --cpu 2 --memory 4Gi

  # In the background, and a look at it later
  lanyard run --image trainer:1 --job nightly --detach
  lanyard jobs logs nightly --follow`

// exitRun ends run where the code is not the container's, as docker run has it. exitInterrupted is the shell's for Ctrl-C.
const (
	exitRun         = 125
	exitInterrupted = 130
)

// patience is how long run looks for an exchange that has gone away, while its job goes on.
const patience = time.Minute

// runFlags are the flags as they were given.
type runFlags struct {
	socket               string
	image                string
	env, envFiles        []string
	workspace, job, task string
	cpu, memory          string
	detach, stopWhenGone bool
	color                string
}

func runCommand(s streams) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:     "run --image IMAGE [--env NAME=VALUE]... [-- COMMAND...]",
		Short:   "Run a job on this machine, with an identity of its own",
		Long:    runLong,
		Example: runExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); len(args) > 0 && at != 0 {
				return codedError{exitRun, misplaced(f.image, args)}
			}
			return coded(runJob(cmd.Context(), f, args, s))
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text := err.Error()
		if args := cmd.Flags().Args(); len(args) > 0 { // a flag of the job's command, most likely
			text += "; " + misplaced(f.image, args)
		}
		return codedError{exitRun, text}
	})
	flags := cmd.Flags()
	flags.StringVar(&f.image, "image", "", "`image` to run; it must be on the machine")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "`NAME=VALUE` to set in the job; NAME alone takes the value that it has here")
	flags.StringArrayVar(&f.envFiles, "env-file", nil, "`file` with one NAME=VALUE on each line; - is standard input")
	flags.StringVar(&f.workspace, "workspace", jobs.DefaultWorkspace, "`name` of the workspace")
	flags.StringVar(&f.job, "job", "", "`name` of the job (default: made from the image's)")
	flags.StringVar(&f.task, "task", jobs.DefaultTask, "`name` of the task in the job")
	flags.StringVar(&f.cpu, "cpu", "", "processors that the job may use, such as 2 or 500m (default: what the platform gives)")
	flags.StringVar(&f.memory, "memory", "", "memory that the job may use, such as 512Mi (default: what the platform gives)")
	flags.BoolVarP(&f.detach, "detach", "d", false, "print the job's id once it runs, and leave it")
	flags.BoolVar(&f.stopWhenGone, "stop-when-gone", false, "have the job stopped when this command is killed")
	flags.StringVar(&f.color, "color", colorAuto, "`when` to colour what is said about the job: auto (on a terminal, unless NO_COLOR is set), always or never")
	socketFlag(cmd, &f.socket)
	return cmd
}

// misplaced says what to write in place of words that stand before the dashes.
func misplaced(image string, args []string) string {
	if image != "" {
		return fmt.Sprintf("what is %q? write the job's command after --", oneLine(args[0]))
	}
	instead := "lanyard run --image " + args[0]
	if len(args) > 1 {
		instead += " -- " + strings.Join(args[1:], " ")
	}
	return fmt.Sprintf("what is %q? name the image with --image, and write the job's command after --: %s", oneLine(args[0]), oneLine(instead))
}

func socketFlag(cmd *cobra.Command, socket *string) {
	cmd.Flags().StringVar(socket, "socket", "", "the exchange's Unix `socket` (default: $"+envSocket+", else "+jobs.DefaultSocket+")")
}

// coded gives an error run's own exit code, unless it has one.
func coded(err error) error {
	var with codedError
	if err == nil || errors.As(err, &with) {
		return err
	}
	return codedError{exitRun, err.Error()}
}

func runJob(ctx context.Context, f runFlags, command []string, s streams) error {
	paint, err := newPainter(f.color, s.err)
	if err != nil {
		return err
	}
	env, err := readEnvironment(f.envFiles, f.env, s.in)
	if err != nil {
		return err
	}
	spec, err := f.spec(env, command)
	if err != nil {
		return err
	}
	// From here on to the end of the job no signal gets lost.
	signals, stop := interrupts()
	defer stop()
	if ctx.Err() != nil {
		return errNotStarted
	}
	return submitAndAttend(ctx, newJobsCaller(f.socket), spec, f, env, paint, signals, s)
}

// submitAndAttend submits a job, and looks after it unless it is to be left alone.
func submitAndAttend(ctx context.Context, c *jobsCaller, spec jobspec.Spec, f runFlags, env *environment, paint painter, signals chan os.Signal, s streams) error {
	sub := &submission{c: c, spec: spec, s: s, quiet: quietFor}
	job, err := sub.run(ctx, signals)
	if err != nil {
		return submitFailed(env, err)
	}
	a := &attached{c: c, job: job, stopWhenGone: f.stopWhenGone, s: s}
	if f.detach {
		return a.detach(ctx, signals)
	}
	if onTerminal(s.err) {
		fmt.Fprintln(s.err, paint.text(cyan, fmt.Sprintf("job %s (%s) runs", spec.Names(), job.ID)))
	}
	return a.run(ctx, signals)
}

// spec is what is asked for, once it is known to be well formed. The exchange checks it again, and its own limits too.
func (f runFlags) spec(env *environment, command []string) (jobspec.Spec, error) {
	spec := jobspec.Spec{Workspace: f.workspace, Job: f.job, Task: f.task, Image: f.image, Env: env.vars, Command: command}
	if spec.Job == "" {
		spec.Job = jobName(f.image)
	}
	var faults []jobFault
	for _, q := range []struct {
		flag, text string
		into       *resource.Quantity
	}{{"cpu", f.cpu, &spec.CPU}, {"memory", f.memory, &spec.Memory}} {
		if q.text == "" {
			continue
		}
		got, err := jobspec.ParseAmount(q.text)
		if err != nil {
			faults = append(faults, jobFault{q.flag, err.Error()})
			continue
		}
		*q.into = got
	}
	for _, fault := range jobspec.Validate(spec, jobspec.Limits{}) {
		text := fault.Detail
		if text == "" {
			text = fault.ErrorBody()
		}
		faults = append(faults, jobFault{fault.Field, text})
	}
	if len(faults) > 0 {
		return spec, env.refusal(faults)
	}
	return spec, nil
}

// jobName makes a name from an image's, with something random behind it.
func jobName(image string) string {
	base, _, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], "@")
	base, _, _ = strings.Cut(base, ":")
	base = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(base), "-"), "-")
	if base == "" {
		base = "job"
	}
	base = strings.TrimRight(base[:min(len(base), 40)], "-")
	return base + "-" + strings.ToLower(rand.Text()[:6])
}

// submitFailed says why there is no job, by the user's own words for the fields.
func submitFailed(env *environment, err error) error {
	var f *failure
	switch {
	case errors.As(err, &f) && len(f.Faults) > 0:
		var faults []jobFault
		for _, x := range f.Faults {
			faults = append(faults, jobFault{x.Field, x.Message})
		}
		return fmt.Errorf("refused: %w", env.refusal(faults))
	case errors.As(err, &f) && (f.Code == jobs.Unavailable || f.Code == jobs.TooMany || f.Code == jobs.Failed):
		return err
	case errors.As(err, &f):
		return fmt.Errorf("refused: %w", err)
	default:
		return err
	}
}

// attached shows a job until it ends.
type attached struct {
	c            *jobsCaller
	job          jobs.Job
	stopWhenGone bool
	s            streams
}

// detach prints the job's id, or stops the job if whoever wanted it was interrupted while it started.
func (a *attached) detach(ctx context.Context, signals <-chan os.Signal) error {
	select {
	case <-signals:
	default:
		_, err := fmt.Fprintln(a.s.out, a.job.ID)
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callOffWithin)
	defer cancel()
	if _, err := a.c.stop(ctx, a.job.ID); err != nil {
		return codedError{exitInterrupted, fmt.Sprintf("interrupted; job %s runs, and is not stopped: %s", a.job.ID, err)}
	}
	return codedError{exitInterrupted, "interrupted; the job had started already, and was stopped"}
}

// run ends with the container's exit code. Interrupts are the job's, so that the context that they end is not used here.
func (a *attached) run(interrupted context.Context, signals <-chan os.Signal) error {
	ctx, leave := context.WithCancelCause(context.WithoutCancel(interrupted))
	defer leave(nil)
	over := make(chan struct{})
	defer close(over)
	go a.heed(ctx, signals, over, leave)

	ended, err := a.follow(ctx)
	switch {
	case errors.Is(context.Cause(ctx), errLeft):
		return codedError{exitInterrupted, ""}
	case err != nil:
		return err
	default:
		return a.end(ended)
	}
}

// errLeft: the user did not wait for the job to stop.
var errLeft = errors.New("left")

// heed stops the job at the first signal and leaves at the second, but not before the exchange has been told.
func (a *attached) heed(ctx context.Context, signals <-chan os.Signal, over <-chan struct{}, leave context.CancelCauseFunc) {
	var told <-chan struct{}
	for {
		select {
		case <-over:
			return
		case <-signals:
		}
		if told != nil {
			pauseFor(told, tellWithin)
			complain(a.s.err, "left; the job is being stopped")
			leave(errLeft)
			return
		}
		if onTerminal(a.s.err) {
			complain(a.s.err, "stopping the job; once more leaves it to stop by itself")
		}
		told = a.stop(ctx)
	}
}

// tellWithin is how long the second signal waits for the exchange to be told.
const tellWithin = 5 * time.Second

// stop asks for the job's end. What it returns is closed once the request is on its way, or has failed.
func (a *attached) stop(ctx context.Context) <-chan struct{} {
	told := make(chan struct{})
	done := sync.OnceFunc(func() { close(told) })
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { done() }})
	go func() {
		defer done()
		if _, err := a.c.stop(ctx, a.job.ID); err != nil && ctx.Err() == nil {
			complain(a.s.err, "the job is not stopped: "+err.Error())
		}
	}()
	return told
}

// follow shows the output to its end and returns the ended job. Where the exchange goes away it is looked for again: the job goes on.
func (a *attached) follow(ctx context.Context) (jobs.Job, error) {
	out := &output{out: a.s.out, err: a.s.err}
	done := false
	var since time.Time
	for {
		var err error
		if !done {
			before := out.seen + out.seenErr
			err = a.c.logs(ctx, a.job.ID, shown{follow: true, stopWhenGone: a.stopWhenGone}, out)
			done = err == nil
			if out.seen+out.seenErr > before {
				since = time.Time{}
			}
		}
		if done {
			var ended jobs.Job
			if ended, err = a.c.wait(ctx, a.job.ID); err == nil {
				return ended, nil
			}
		}
		if ctx.Err() != nil || !passing(err) {
			return jobs.Job{}, err
		}
		if since.IsZero() {
			since = time.Now()
			complain(a.s.err, fmt.Sprintf("%s; the job goes on, and the exchange is looked for again for %s", err, patience))
		}
		if time.Since(since) > patience {
			return jobs.Job{}, fmt.Errorf("%w; the job goes on: lanyard jobs logs %s --follow", err, a.job.ID)
		}
		pauseFor(ctx.Done(), time.Second)
	}
}

// passing says whether an error may be over soon.
func passing(err error) bool {
	var f *failure
	return errors.Is(err, errAway) || errors.As(err, &f) && (f.Code == jobs.Unavailable || f.Code == jobs.TooMany)
}

// pauseFor waits for something, and no longer than d.
func pauseFor(something <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-something:
	}
}

// end turns an ended job into an exit code, and says what the code does not.
func (a *attached) end(job jobs.Job) error {
	text := endText(job.End)
	switch {
	case job.ExitCode == nil:
		if text == "" {
			text = "nobody knows how the job ended"
		}
		return codedError{exitRun, text}
	case text != "":
		complain(a.s.err, text)
	}
	if *job.ExitCode == 0 {
		return nil
	}
	return codedError{*job.ExitCode, ""}
}

// endText is what to tell of an end, besides the exit code.
func endText(end string) string {
	switch end {
	case jobs.EndOutOfMemory:
		return "the kernel ended the job: it took more memory than it may; see --memory"
	case jobs.EndRevoked:
		return "the job was ended: its identity was revoked, or has expired"
	case jobs.EndRemoved:
		return "the job's container was removed by somebody else"
	case jobs.EndFailed:
		return "the job did not start"
	default:
		return ""
	}
}

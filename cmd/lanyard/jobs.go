package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lanyard-k8s/lanyard/api/jobs"
)

func jobsCommand(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Look after your jobs on this machine",
		Long: `jobs lists, shows and stops the jobs that you have submitted with "lanyard run". Nobody sees another user's.

A job is named by its id, by "workspace/job/task", or by its job's name alone where only one of yours has it. Jobs that have ended
are shown for some time, with the last of their output.

The program ends with 0, 1 when there is no such job or the answer is no, 2 when it could not ask, 3 when the exchange or the Docker
Engine is away.`,
		Example: "  lanyard jobs list\n  lanyard jobs logs nightly --follow\n  lanyard jobs stop nightly",
	}
	cmd.AddCommand(jobsListCommand(s), jobsLogsCommand(s), jobsStopCommand(s), jobsWaitCommand(s))
	return cmd
}

func jobsListCommand(s streams) *cobra.Command {
	var socket, format, color string
	cmd := &cobra.Command{
		Use: "list", Short: "List your jobs, the newest first", Example: "  lanyard jobs list\n  lanyard jobs list --output json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("output", format, "table", "json"); err != nil {
				return err
			}
			paint, err := newPainter(color, s.out)
			if err != nil {
				return err
			}
			found, err := newJobsCaller(socket).list(cmd.Context())
			if err != nil {
				return jobsFailed(err)
			}
			if format == "json" {
				return printJSON(s.out, jobs.List{Jobs: found})
			}
			return printJobs(s, paint, found, time.Now())
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "`format`: table or json")
	cmd.Flags().StringVar(&color, "color", colorAuto, "`when` to colour what is printed: auto (on a terminal, unless NO_COLOR is set), always or never")
	socketFlag(cmd, &socket)
	return cmd
}

// printJobs prints a table. The state comes last, so that its colour moves no column.
func printJobs(s streams, paint painter, found []jobs.Job, now time.Time) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(s.out, "You have no jobs.")
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tJOB\tIMAGE\tAGE\tSTATE")
	for _, j := range found {
		fmt.Fprintf(w, "%s\t%s/%s/%s\t%s\t%s\t%s\n", j.ID, j.Workspace, j.Job, j.Task, oneLine(j.Image), age(now.Sub(j.Created)), stateText(paint, j))
	}
	return w.Flush()
}

func stateText(paint painter, j jobs.Job) string {
	switch {
	case j.State == jobs.Running:
		return paint.text(green, "running")
	case j.State != jobs.Ended:
		return string(j.State)
	case j.ExitCode != nil && *j.ExitCode == 0:
		return "ended (0)"
	case j.ExitCode != nil && (j.End == "" || j.End == jobs.EndExited):
		return paint.text(red, "ended ("+strconv.Itoa(*j.ExitCode)+")")
	case j.ExitCode != nil:
		return paint.text(red, "ended ("+strconv.Itoa(*j.ExitCode)+", "+strings.ReplaceAll(j.End, "_", " ")+")")
	default:
		return paint.text(red, "ended ("+strings.ReplaceAll(j.End, "_", " ")+")")
	}
}

func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

func jobsLogsCommand(s streams) *cobra.Command {
	var socket string
	var want shown
	cmd := &cobra.Command{
		Use: "logs JOB", Short: "Show what a job has printed",
		Long: `logs shows what a job has printed: its standard output on standard output, its standard error on standard error. Of a job that
has ended the last 64 KiB are kept for some time. Ctrl-C ends the showing and not the job.`,
		Example: "  lanyard jobs logs nightly\n  lanyard jobs logs nightly --tail 20 --follow 2>/dev/null",
		Args:    oneJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("tail") && want.tail < 1 {
				return errors.New("--tail: must be 1 or more lines")
			}
			c := newJobsCaller(socket)
			ref, err := c.resolve(cmd.Context(), args[0])
			if err == nil {
				err = c.logs(cmd.Context(), ref, want, &output{out: s.out, err: s.err})
			}
			if errors.Is(err, context.Canceled) {
				return codedError{exitInterrupted, ""}
			}
			return jobsFailed(err)
		},
	}
	cmd.Flags().BoolVarP(&want.follow, "follow", "f", false, "go on until the job ends")
	cmd.Flags().IntVarP(&want.tail, "tail", "n", 0, "`lines` to show from the end, of both outputs together (default: all)")
	socketFlag(cmd, &socket)
	return cmd
}

func jobsStopCommand(s streams) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: "stop JOB...", Short: "Stop jobs: SIGTERM, and after ten seconds SIGKILL",
		Example: "  lanyard jobs stop nightly\n  lanyard jobs stop 0a1b2c3d4e5f default/nightly/main",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := newJobsCaller(socket)
			var failed error
			for _, name := range args {
				ref, err := c.resolve(cmd.Context(), name)
				if err == nil {
					_, err = c.stop(cmd.Context(), ref)
				}
				if err != nil {
					complain(s.err, oneLine(name)+": "+jobsFailed(err).Error())
					failed = jobsFailed(err)
					continue
				}
				fmt.Fprintln(s.out, name)
			}
			var with codedError
			if errors.As(failed, &with) {
				return codedError{with.code, ""}
			}
			return failed
		},
	}
	socketFlag(cmd, &socket)
	return cmd
}

func jobsWaitCommand(s streams) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: "wait JOB", Short: "Wait until a job has ended, and end with its exit code",
		Example: "  lanyard jobs wait nightly && echo done",
		Args:    oneJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := newJobsCaller(socket)
			ref, err := c.resolve(cmd.Context(), args[0])
			if err != nil {
				return jobsFailed(err)
			}
			job, err := c.wait(cmd.Context(), ref)
			switch {
			case errors.Is(err, context.Canceled):
				return codedError{exitInterrupted, ""}
			case err != nil:
				return jobsFailed(err)
			}
			a := &attached{s: s}
			return a.end(job)
		},
	}
	socketFlag(cmd, &socket)
	return cmd
}

func oneJob(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name one job; lanyard jobs list shows yours")
	}
	return nil
}

// resolve finds the job that is meant by a job's name alone. An id, or a name with its workspace and task, is taken as it is.
func (c *jobsCaller) resolve(ctx context.Context, name string) (string, error) {
	if regexp.MustCompile(`^([0-9a-f]{12}|[^/]*/[^/]*/[^/]*)$`).MatchString(name) {
		return name, nil
	}
	found, err := c.list(ctx)
	if err != nil {
		return "", err
	}
	var ids, running []string
	for _, j := range found {
		if j.Job != name {
			continue
		}
		ids = append(ids, j.ID)
		if j.State != jobs.Ended {
			running = append(running, j.ID)
		}
	}
	switch {
	case len(running) == 1:
		return running[0], nil
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) == 0:
		return "", codedError{exitFound, fmt.Sprintf("you have no job %q; lanyard jobs list shows yours", oneLine(name))}
	default:
		return "", codedError{exitFound, fmt.Sprintf("you have several jobs %q: %s", oneLine(name), strings.Join(ids, ", "))}
	}
}

// jobsFailed gives an error its exit code.
func jobsFailed(err error) error {
	var f *failure
	var with codedError
	switch {
	case err == nil, errors.As(err, &with):
		return err
	case passing(err):
		return codedError{exitUnavailable, err.Error()}
	case errors.As(err, &f):
		return codedError{exitFound, err.Error()}
	default:
		return err
	}
}

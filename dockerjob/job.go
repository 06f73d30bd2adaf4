package dockerjob

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// Spec is a request to run a job; see jobspec.
type Spec = jobspec.Spec

// EnvVar is one variable of a Spec.
type EnvVar = jobspec.EnvVar

// State is how far a job has come.
type State string

// The states of a job.
const (
	// Starting: its container does not run yet.
	Starting State = "starting"
	// Running: it runs.
	Running State = "running"
	// Ended: it does not run any more, and never will again.
	Ended State = "ended"
)

// How a job ended.
const (
	// EndExited: by itself.
	EndExited = "exited"
	// EndStopped: its submitter stopped it.
	EndStopped = "stopped"
	// EndFailed: it never started.
	EndFailed = "start_failed"
	// EndRemoved: its container is gone, so nobody knows how it ended.
	EndRemoved = "removed"
	// EndRevoked: its identity was revoked or has expired, and its container was removed with it.
	EndRevoked = "revoked"
	// EndOutOfMemory: the kernel ended it, since it took more memory than it may.
	EndOutOfMemory = "out_of_memory"
)

// Job is what a submitter sees of a job: nothing of its row.
type Job struct {
	// ID names the job on this machine: 12 hex digits.
	ID string `json:"id"`
	// Workspace, Job and Task are what its submitter called it.
	Workspace string `json:"workspace"`
	Job       string `json:"job"`
	Task      string `json:"task"`
	// Image is what was asked for; after a restart of this program it may be the image's id.
	Image string `json:"image,omitempty"`
	State State  `json:"state"`
	// Created and Ended are when it was submitted and when its end was noticed.
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended,omitzero"`
	// ExitCode is the container's, once it ended; nil if nobody knows it.
	ExitCode *int `json:"exitCode,omitempty"`
	// End says how it ended: one of the End constants.
	End string `json:"end,omitempty"`
}

// What a Backend can answer besides a job. Another submitter's job is ErrNotFound, as one that never was.
var (
	// ErrNotFound: the submitter has no such job.
	ErrNotFound = errors.New("no such job")
	// ErrAmbiguous: the submitter has several jobs of that name; its ID tells them apart.
	ErrAmbiguous = errors.New("several jobs have that name; use the id")
	// ErrExists: a job of that submitter with that name runs already.
	ErrExists = errors.New("a job with that name runs already; stop it or choose another name")
	// ErrTooMany: the submitter, or all together, have as many jobs as are allowed.
	ErrTooMany = errors.New("too many jobs run already; wait for one to end")
	// ErrNoImage: the image is not on the machine.
	ErrNoImage = errors.New("the image is not on this machine, and nothing is pulled; ask an admin to `docker pull` it")
	// ErrSubmitter: this subject may not submit jobs.
	ErrSubmitter = errors.New("this user may not submit jobs")
	// ErrEngine: the Docker Engine cannot be reached or refused what it was asked; the job does not run.
	ErrEngine = errors.New("the Docker Engine is unavailable")
	// ErrStart: the Engine could not start the container: the command is not in the image, for instance.
	ErrStart = errors.New("the container did not start")
	// ErrImage: the image is not one that jobs can run.
	ErrImage = errors.New("the image cannot be used for a job")
	// ErrStore: the rows cannot be written; the job does not run.
	ErrStore = errors.New("the database is unavailable")
	// ErrClosed: the backend is stopping.
	ErrClosed = errors.New("the backend is stopping")
)

// InvalidError is a Spec that may not run, with every fault.
type InvalidError struct {
	Faults field.ErrorList
}

func (e *InvalidError) Error() string {
	if len(e.Faults) == 0 {
		return "the job is not valid"
	}
	return fmt.Sprintf("the job is not valid: %v", e.Faults.ToAggregate())
}

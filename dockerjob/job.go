package dockerjob

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// Spec is a request to run a job; see jobspec.
type Spec = jobspec.Spec

// EnvVar is one variable of a Spec.
type EnvVar = jobspec.EnvVar

// Job is what a submitter sees of a job.
type Job = jobs.Job

// State is how far a job has come.
type State = jobs.State

// The states of a job.
const (
	Starting = jobs.Starting
	Running  = jobs.Running
	Ended    = jobs.Ended
)

// How a job ended.
const (
	EndExited      = jobs.EndExited
	EndStopped     = jobs.EndStopped
	EndFailed      = jobs.EndFailed
	EndRemoved     = jobs.EndRemoved
	EndRevoked     = jobs.EndRevoked
	EndOutOfMemory = jobs.EndOutOfMemory
)

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
	// ErrUnreachable: containers would not reach the exchange. Its text, with what follows, is for the submitter.
	ErrUnreachable = errors.New("no job is started, for it could not reach the exchange")
	// ErrClosed: the backend is stopping.
	ErrClosed = errors.New("the backend is stopping")
)

// Cause is what of an error may be written down where others than the submitter read it. What the Engine says of a container that does not
// start quotes the job's command, and that may hold a secret in the wrong place: its submitter is told, the log is not.
func Cause(err error) string {
	var invalid *InvalidError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &invalid):
		return "the job is not valid"
	case errors.Is(err, ErrStart):
		return ErrStart.Error()
	default:
		return err.Error()
	}
}

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

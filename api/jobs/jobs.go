// Package jobs holds the words of the submitters' socket: what a user's command sends and what the exchange's Docker backend
// answers, as JSON over HTTP. A job is what a user submits; the rows and proofs behind it have no words here.
package jobs

import "time"

// DefaultSocket is where users submit.
const DefaultSocket = "/run/lanyard/submit.sock"

// The paths. {id} is a Job's ID, or "workspace/job/task" with its slashes escaped.
const (
	// PathJobs takes a submission by POST (201, Job), a jobspec.Spec as JSON, and lists the caller's own jobs by GET (200, List).
	PathJobs = "/v1/jobs"
	// PathLogs streams a job's output: Frames.
	PathLogs = "/v1/jobs/{id}/logs"
	// PathStop ends a job, by POST (200, Job).
	PathStop = "/v1/jobs/{id}/stop"
	// PathWait answers once a job has ended: GET (200, Job).
	PathWait = "/v1/jobs/{id}/wait"
)

// The parameters of PathLogs.
const (
	// ParamFollow, "true", goes on until the job ends.
	ParamFollow = "follow"
	// ParamSkipOut and ParamSkipErr are how many bytes of either output the caller has already, for whoever comes again.
	ParamSkipOut = "skip-stdout"
	ParamSkipErr = "skip-stderr"
	// ParamTail is how many lines from the end are wanted, both outputs together; without it, all. It goes with no skipping.
	ParamTail = "tail"
	// ParamLeave says what becomes of the job when the caller goes away before its end: LeaveStops, or else nothing.
	ParamLeave = "leave"
	LeaveStops = "stop"
)

// MediaFrames is the type of a stream of Frames.
const MediaFrames = "application/vnd.lanyard.frames"

// DefaultWorkspace and DefaultTask stand where nobody names another.
const (
	DefaultWorkspace = "default"
	DefaultTask      = "main"
)

// State is how far a job has come.
type State string

// The states.
const (
	// Starting: it does not run yet.
	Starting State = "starting"
	// Running: it does.
	Running State = "running"
	// Ended: it has; ExitCode and End say how.
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

// Job is a job as its submitter sees it: nothing of its row.
type Job struct {
	// ID names the job on this machine: 12 hex digits.
	ID string `json:"id"`
	// Workspace, Job and Task are what its submitter called it.
	Workspace string `json:"workspace"`
	Job       string `json:"job"`
	Task      string `json:"task"`
	// Image is what was asked for; after a restart of the exchange it may be the image's id.
	Image string `json:"image,omitempty"`
	State State  `json:"state"`
	// Created and Ended are when it was submitted and when its end was noticed.
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended,omitzero"`
	// ExitCode is the container's, once it has ended; absent where nobody knows it.
	ExitCode *int `json:"exitCode,omitempty"`
	// End says how it ended: one of the End constants.
	End string `json:"end,omitempty"`
}

// List are jobs, the newest first.
type List struct {
	Jobs []Job `json:"jobs"`
}

// Code is what kind of refusal or fault an answer other than 2xx is.
type Code string

// The codes.
const (
	// Invalid: the request names what a job may not have; Faults say which. 400.
	Invalid Code = "invalid"
	// Forbidden: this user submits no jobs. 403.
	Forbidden Code = "forbidden"
	// NotFound: the caller has no such job. 404.
	NotFound Code = "not_found"
	// Conflict: there is such a job already. 409.
	Conflict Code = "conflict"
	// TooMany: a bound was reached. 429.
	TooMany Code = "too_many"
	// Unavailable: the Docker Engine or the database does not answer; come again. 503.
	Unavailable Code = "unavailable"
	// Failed: anything else. 500.
	Failed Code = "failed"
)

// Failure is the body of every answer that is not 2xx.
type Failure struct {
	Code Code `json:"code"`
	// Message is one line for a person.
	Message string `json:"message"`
	// Faults are all that is wrong with a submission.
	Faults []Fault `json:"faults,omitempty"`
}

// Fault names a field of a submission and says what is wrong with it. It never holds a value.
type Fault struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

package dockerjob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/internal/obs"
)

// Step is one step of a submission. They come in this order, and whoever is stopped after any of them leaves nothing usable.
type Step string

// The steps.
const (
	StepImage      Step = "image"      // the image was looked up
	StepSubmission Step = "submission" // the submission is stored
	StepRow        Step = "row"        // its row is, PENDING with the proof's hash
	StepVolume     Step = "volume"     // the volume was made
	StepWriter     Step = "writer"     // the container that the proof is written through was created
	StepWritten    Step = "written"    // the proof lies in the volume
	StepUnwritten  Step = "unwritten"  // that container is removed
	StepContainer  Step = "container"  // the job's container was created
	StepChecked    Step = "checked"    // the proof is seen in it
	StepStarted    Step = "started"    // it was started
	StepActive     Step = "active"     // the row is ACTIVE with the container's id
)

// The steps of an end. Whoever is stopped after any of them leaves it to the next comparison.
const (
	StepNoticed Step = "noticed" // the container has ended
	StepRevoked Step = "revoked" // the row is revoked
	StepRead    Step = "read"    // the output was read, or nobody came for it
)

// Ending lists the steps of an end, in order.
func Ending() []Step { return []Step{StepNoticed, StepRevoked, StepRead} }

// Steps lists the steps of a submission, in order.
func Steps() []Step {
	return []Step{
		StepImage, StepSubmission, StepRow, StepVolume, StepWriter, StepWritten, StepUnwritten, StepContainer, StepChecked, StepStarted, StepActive,
	}
}

const (
	rowPrefix    = "docker-"
	volumePrefix = "task-workload-identity-"
	idDigits     = 12
	taskKind     = "job"
	groupKind    = "docker/Job"
)

// source is where proofs and names are drawn from.
func source() io.Reader { return rand.Reader }

// shortID is the part of a row's name that volumes, containers and people see.
func shortID(row string) string { return strings.TrimPrefix(row, rowPrefix)[:idDigits] }

// volumeName names a job's volume. The names in it are for people; the digits alone keep two jobs apart, since a-b and c give the
// same text as a and b-c.
func volumeName(s Spec, id string) string {
	return volumePrefix + strings.Join([]string{s.Workspace, s.Job, s.Task, id}, "-")
}

// Submit starts a job for a submitter and returns once it runs. Whoever cancels ctx before that gets it undone. An error is one of
// this package's, or *InvalidError with every fault of the request.
func (b *Backend) Submit(ctx context.Context, subject string, spec Spec) (Job, error) {
	began := time.Now() // how long it takes is measured by the machine's clock
	t, err := b.submit(ctx, subject, spec)
	b.metrics.submitted(err, time.Since(began))
	var invalid *InvalidError
	if errors.As(err, &invalid) { // nothing that it holds is written down: it may be long, and a secret in the wrong place
		b.log.Info("job not started", obs.KeyCaller, subject, "cause", Cause(err), "faults", len(invalid.Faults))
		return Job{}, err
	}
	if err != nil {
		b.log.Info("job not started", obs.KeyCaller, subject, "job", spec.Names(), "cause", Cause(err))
		return Job{}, err
	}
	b.log.Info("job started", obs.KeyCaller, subject, "job", spec.Names(), "id", t.id, "container", t.container)
	return t.view(), nil
}

func (b *Backend) submit(ctx context.Context, subject string, spec Spec) (*task, error) {
	if faults := jobspec.Validate(spec, b.s.Limits); len(faults) > 0 {
		return nil, &InvalidError{Faults: faults}
	}
	if subject == "" || (grant.Rules{SystemSubjects: b.s.SystemSubjects}).Reserved(subject) {
		return nil, ErrSubmitter
	}
	if err := b.takes(); err != nil {
		return nil, err
	}
	host, err := b.reach(ctx)
	if err != nil {
		return nil, err
	}
	proof, t, err := b.enter(subject, spec)
	if err != nil {
		return nil, err
	}
	t.host = host
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.mu.Lock()
	t.cancel = cancel
	t.mu.Unlock()
	if err := b.launch(ctx, t, proof); err != nil {
		b.abandon(ctx, t)
		return nil, err
	}
	// It may have ended before anybody listened for that.
	b.spawn(func(ctx context.Context) { b.check(ctx, t) })
	return t, nil
}

// takes says why no job is taken now.
func (b *Backend) takes() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taking()
}

// taking is takes for whoever holds the lock.
func (b *Backend) taking() error {
	if b.closing {
		return ErrClosed
	}
	return b.ready
}

// enter gives the job a name and a place among the others, or says why there is none.
func (b *Backend) enter(subject string, spec Spec) (delegation.Proof, *task, error) {
	var secret delegation.Secret
	generation := make([]byte, 16)
	if _, err := io.ReadFull(b.random, secret[:]); err != nil {
		return delegation.Proof{}, nil, fmt.Errorf("draw a proof: %w", err)
	}
	if _, err := io.ReadFull(b.random, generation); err != nil {
		return delegation.Proof{}, nil, fmt.Errorf("draw a name: %w", err)
	}
	// A slash is in no name, so that no two jobs and tasks make the same id; and each submission is a generation of its own.
	row := delegation.DockerName(spec.Workspace, taskKind, spec.Job+"/"+spec.Task, hex.EncodeToString(generation))
	proof, err := delegation.NewProof(row, secret)
	if err != nil {
		return delegation.Proof{}, nil, fmt.Errorf("draw a proof: %w", err)
	}
	t := newTask(row, subject, spec, delegation.Moment(b.now()), Starting)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.taking(); err != nil {
		return delegation.Proof{}, nil, err
	}
	all, own := 0, 0
	for _, other := range b.tasks {
		if other.view().State == Ended {
			continue
		}
		all++
		if other.subject != subject {
			continue
		}
		own++
		if other.spec.Names() == spec.Names() {
			return delegation.Proof{}, nil, ErrExists
		}
	}
	if all >= b.s.MaxJobs || own >= b.s.MaxJobsEach || b.tasks[t.id] != nil {
		return delegation.Proof{}, nil, ErrTooMany
	}
	b.tasks[t.id] = t
	b.metrics.running.Inc()
	return proof, t, nil
}

// launch goes through the steps.
func (b *Backend) launch(ctx context.Context, t *task, proof delegation.Proof) error {
	for _, step := range []struct {
		name Step
		do   func(context.Context, *task, delegation.Proof) error
	}{
		{StepImage, b.findImage},
		{StepRow, b.promise}, // and StepSubmission
		{StepVolume, b.makeVolume},
		{"", b.write}, // StepWriter, StepWritten, StepUnwritten
		{StepContainer, b.createWorker},
		{StepChecked, b.checkFiles},
		{StepStarted, b.start},
		{StepActive, b.activate},
	} {
		err := step.do(ctx, t, proof)
		if err == nil && step.name != "" {
			err = b.reached(step.name)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// reached lets a test stop here.
func (b *Backend) reached(s Step) error {
	if b.at == nil {
		return nil
	}
	return b.at(s)
}

// findImage looks the image up. From here on it goes by its id.
func (b *Backend) findImage(ctx context.Context, t *task, _ delegation.Proof) (err error) {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	t.image, err = b.engine.image(ctx, t.spec.Image)
	if errors.Is(err, errGone) {
		return ErrNoImage
	}
	if err == nil && !t.image.command && len(t.spec.Command) == 0 {
		return &InvalidError{Faults: field.ErrorList{field.Required(field.NewPath("command"), "the image names none; say what to run in it")}}
	}
	for _, v := range t.image.volumes {
		if strings.HasPrefix(path.Clean(v), b.s.MountPath+"/") {
			return b.inTheWay()
		}
	}
	return err
}

// inTheWay is the error of an image that has something where the proof belongs.
func (b *Backend) inTheWay() error {
	return fmt.Errorf("%w: something of its own stands in the way of %s", ErrImage, b.s.MountPath)
}

// promise stores the submission and the row.
func (b *Backend) promise(ctx context.Context, t *task, p delegation.Proof) error {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	_, err := b.store.Confirm(ctx, delegation.Submission{
		UID: t.row, GroupKind: groupKind, Cluster: b.s.Cluster, Namespace: t.spec.Workspace, Name: t.spec.Job + "/" + t.spec.Task, Submitter: t.subject,
		Audiences: b.s.Audiences, Scopes: b.s.Scopes, State: delegation.Confirmed, ConfirmedAt: t.created,
	})
	if err != nil {
		return storeFault(err)
	}
	if err := b.reached(StepSubmission); err != nil {
		return err
	}
	_, err = b.store.Put(ctx, b.record(t, p.Hash(), delegation.Pending))
	return storeFault(err)
}

// record is the job's row.
func (b *Backend) record(t *task, hash delegation.ProofHash, state delegation.RowState) delegation.Row {
	r := delegation.Row{
		Name: t.row, Kind: delegation.Docker, SubmissionUID: t.row, ProofHash: hash, State: state, CreatedAt: t.created, ExpiresAt: b.now().Add(b.s.MaxAge),
	}
	if state == delegation.Active {
		r.Bound = delegation.Reference{Name: delegation.ReferenceContainer, Value: t.container}
	}
	return r
}

func storeFault(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}

// makeVolume makes the volume. Its labels hold something drawn now, which the Engine's answer must repeat.
func (b *Backend) makeVolume(ctx context.Context, t *task, _ delegation.Proof) error {
	made := make([]byte, 16)
	if _, err := io.ReadFull(b.random, made); err != nil {
		return fmt.Errorf("draw a label: %w", err)
	}
	labels := b.labels(t)
	labels[labelMade] = hex.EncodeToString(made)
	ctx, cancel := b.limited(ctx)
	defer cancel()
	name := volumeName(t.spec, t.id)
	if err := b.engine.makeVolume(ctx, name, labels); err != nil {
		return fmt.Errorf("make the volume: %w", err)
	}
	t.volume = name
	return nil
}

// write puts the proof into the volume, through a container that is never started. It is removed by abandon if anything goes wrong.
func (b *Backend) write(ctx context.Context, t *task, p delegation.Proof) error {
	if t.ca = b.s.CA(); !isCA(t.ca) { // a job without it would trust nobody, and fail later for no reason that can be seen
		return errors.New("the exchange's CA certificate cannot be given to jobs")
	}
	content, err := b.archive(t, p)
	if err != nil {
		return err
	}
	ctx, cancel := b.limited(ctx)
	defer cancel()
	id, err := b.engine.create(ctx, b.writer(t))
	if err != nil {
		return b.creating(err)
	}
	err = b.reached(StepWriter)
	if err == nil {
		err = b.engine.put(ctx, id, b.s.MountPath, content)
		if err != nil && strings.Contains(err.Error(), "not a directory") {
			err = b.inTheWay() // the Engine has no other way to say so; what it does not say stays its own fault
		}
	}
	if err == nil {
		err = b.reached(StepWritten)
	}
	if err == nil {
		err = b.setApart(ctx, t, id)
	}
	// It goes whatever happened, and before anything else is made.
	gone, cancelGone := b.limited(context.WithoutCancel(ctx))
	defer cancelGone()
	if err := errors.Join(err, b.engine.remove(gone, id)); err != nil {
		return fmt.Errorf("write the proof: %w", err)
	}
	return b.reached(StepUnwritten)
}

// creating sorts the error of a container that could not be created: what the Engine has against the request is the image's
// fault, since all the rest of it is ours.
func (b *Backend) creating(err error) error {
	if errors.Is(err, errGone) {
		return ErrNoImage // removed in between
	}
	return fmt.Errorf("create a container: %w", err)
}

// createWorker creates the job's container.
func (b *Backend) createWorker(ctx context.Context, t *task, _ delegation.Proof) error {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	id, err := b.engine.create(ctx, b.worker(t))
	if err != nil {
		return b.creating(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.container = id
	return nil
}

// checkFiles looks at proof and CA as the job will see them: an image may have links at that place, or volumes of its own.
func (b *Backend) checkFiles(ctx context.Context, t *task, p delegation.Proof) error {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	for name, size := range map[string]int{wire.TokenFile: len(p.Token()), wire.CAFile: len(t.ca)} {
		got, err := b.engine.stat(ctx, t.container, path.Join(b.s.MountPath, name))
		switch {
		case errors.Is(err, errGone):
			return b.inTheWay()
		case err != nil:
			return fmt.Errorf("look at the proof: %w", err)
		case !got.Mode.IsRegular() || got.Mode.Perm() != fileMode || got.Size != int64(size):
			return b.inTheWay()
		}
	}
	return nil
}

// start starts the container, if it still reaches the exchange, and by the address that it was told.
func (b *Backend) start(ctx context.Context, t *task, _ delegation.Proof) error {
	switch host, err := b.reach(ctx); {
	case err != nil:
		return err
	case host != t.host:
		return fmt.Errorf("%w: its address has changed meanwhile; come again", ErrUnreachable)
	}
	ctx, cancel := b.limited(ctx)
	defer cancel()
	return b.engine.start(ctx, t.container)
}

// activate makes the row count.
func (b *Backend) activate(ctx context.Context, t *task, p delegation.Proof) error {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	got, err := b.store.Put(ctx, b.record(t, p.Hash(), delegation.Active))
	if err != nil {
		return storeFault(err)
	}
	if got.State != delegation.Active {
		return fmt.Errorf("%w: the job's identity was revoked while it started", ErrStart)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return context.Canceled
	}
	t.state = Running
	return nil
}

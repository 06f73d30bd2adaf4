// Package intake takes doctor's snapshot of a cluster. It only reads, and notes for every source that it could not read
// why, so that nothing unread passes for healthy. Of Secrets it keeps the public certificate alone.
package intake

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/doctor"
)

// Cluster is where the snapshot is taken.
type Cluster struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
}

// Options narrow the look. Release is the namespace of the installation; empty means that the webhook configurations tell.
// Config, when not empty, is the webhook's configuration file, in place of the one in the cluster. Load reads it.
type Options struct {
	Release string
	Secret  string // of the webhook's serving certificate
	Config  []byte
	Load    Loader
}

// DefaultSecret is the Secret that the chart has the webhook's serving certificate written to.
const DefaultSecret = "lanyard-webhook-tls"

// taker takes one snapshot.
type taker struct {
	Cluster
	Options
	snapshot doctor.Snapshot
}

// Take reads the cluster. An error means that the API server did not answer, or that the given configuration is bad:
// single sources that could not be read are noted in the snapshot.
func Take(ctx context.Context, c Cluster, o Options, now time.Time) (doctor.Snapshot, error) {
	if o.Secret == "" {
		o.Secret = DefaultSecret
	}
	t := &taker{Cluster: c, Options: o, snapshot: doctor.Snapshot{Now: now, Release: o.Release, Unread: map[doctor.Source]string{}}}
	if err := t.version(); err != nil {
		return t.snapshot, err
	}
	t.webhooks(ctx)
	if err := t.settings(ctx); err != nil {
		return t.snapshot, err
	}
	t.certificates(ctx)
	t.endpoints(ctx)
	t.policies(ctx)
	t.namespaces(ctx)
	t.access(ctx)
	t.workloads(ctx)
	t.work(ctx)
	t.certificateAuthority(ctx)
	if err := ctx.Err(); err != nil {
		return t.snapshot, fmt.Errorf("reading the cluster: %w", err)
	}
	return t.snapshot, nil
}

// missed notes that a source could not be read. It keeps the first cause, and of that only what the API server said in
// words that name no content.
func (t *taker) missed(source doctor.Source, err error) {
	if err == nil {
		return
	}
	if _, noted := t.snapshot.Unread[source]; noted {
		return
	}
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		t.snapshot.Unread[source] = "not allowed: " + err.Error()
	default:
		t.snapshot.Unread[source] = err.Error()
	}
}

// version asks for the API server's version; it is the call that shows whether there is a cluster at all.
func (t *taker) version() error {
	v, err := t.Kube.Discovery().ServerVersion()
	switch {
	case apierrors.IsForbidden(err):
		t.missed(doctor.SourceVersion, err)
		return nil
	case err != nil:
		return fmt.Errorf("reaching the cluster: %w", err)
	}
	major, errMajor := strconv.Atoi(v.Major)
	// Some vendors write "32+".
	minor, errMinor := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if errMajor != nil || errMinor != nil {
		t.snapshot.Unread[doctor.SourceVersion] = "the API server's version makes no sense"
		return nil
	}
	t.snapshot.Major, t.snapshot.Minor = major, minor
	return nil
}

package grant_test

import (
	"net/url"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

const (
	form     = "application/x-www-form-urlencoded"
	client   = "nemo-platform"
	audience = "nemo-platform-api"
	second   = "datasets"
	username = "system:serviceaccount:runs:runner"
)

// now is no whole second, so that cutting shows.
func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC) }

func rules() grant.Rules {
	return grant.Rules{
		Enabled: true, Issuer: "https://lanyard.example/apis/auth", ClientID: client, Audiences: []string{audience, second},
		DefaultAudience: audience, Scopes: []string{"openid", "email", "groups"}, TTL: 300 * time.Second,
		SystemSubjects: []string{"system:serviceaccount:ci:bot"},
	}
}

func request() grant.Request {
	return grant.Request{SubjectTokenType: grant.TokenTypeJWT, SubjectToken: "a.b.c", Audience: audience, Scopes: []string{"openid", "admin", "email"}}
}

func podName() string { return delegation.PodName(audience, username, "pod-1") }

func pod() grant.Proof {
	return grant.Proof{
		Kind: delegation.Pod, Name: podName(), Username: username, Namespace: "runs", ServiceAccount: "runner", PodUID: "pod-1", Node: "n1",
		Expiry: now().Add(10 * time.Minute),
	}
}

func row() delegation.Row {
	return delegation.Row{
		Name: podName(), Kind: delegation.Pod, SubmissionUID: "job-1", Bound: delegation.Reference{Name: delegation.ReferencePodUID, Value: "pod-1"},
		Namespace: "runs", ServiceAccount: "runner", NodeName: "n1", State: delegation.Active, Rev: 1,
		CreatedAt: now().Add(-time.Hour), ExpiresAt: now().Add(time.Hour),
	}
}

func submission() delegation.Submission {
	return delegation.Submission{
		UID: "job-1", GroupKind: "batch/Job", Namespace: "runs", Name: "train", Submitter: "alice", Audiences: []string{audience},
		Scopes: []string{"openid", "email"}, State: delegation.Confirmed, ConfirmedAt: now().Add(-time.Hour),
	}
}

// container is a Docker proof and its row.
func container(secret byte) (grant.Proof, delegation.Row) {
	name := delegation.DockerName("w", "job", "j", "1")
	p, err := delegation.NewProof(name, delegation.Secret{secret})
	if err != nil {
		panic(err)
	}
	return grant.Proof{Kind: delegation.Docker, Name: name, Docker: p}, delegation.Row{
		Name: name, Kind: delegation.Docker, SubmissionUID: "job-1", Bound: delegation.Reference{Name: delegation.ReferenceContainer, Value: "c"},
		ProofHash: p.Hash(), State: delegation.Active, CreatedAt: now().Add(-time.Hour), ExpiresAt: now().Add(time.Hour),
	}
}

// fields is a complete form.
func fields() url.Values {
	return url.Values{
		"grant_type": {grant.GrantType}, "client_id": {client}, "subject_token_type": {grant.TokenTypeJWT}, "subject_token": {"a.b.c"},
		"audience": {audience}, "scope": {"openid email"}, "requested_token_type": {grant.TokenTypeAccess},
	}
}

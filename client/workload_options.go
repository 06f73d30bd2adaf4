package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

// ErrNoIdentity says that this process has no workload identity: NMP_WORKLOAD_IDENTITY_TOKEN_FILE is not set. Programs that run
// elsewhere too go on with another credential.
var ErrNoIdentity = errors.New("no workload identity: " + wire.EnvSubjectTokenFile + " is not set")

// WorkloadOptions make a Workload. TokenFile and BaseURL are needed, the rest has defaults.
type WorkloadOptions struct {
	// TokenFile holds the subject token. It is read immediately before each exchange and never kept.
	TokenFile string
	// BaseURL is the platform's, such as "https://lanyard-exchange.lanyard.svc:8443": https, or http on this machine's loopback address.
	BaseURL string
	// CAFile holds the certificates that servers' are checked against; empty means the system's. A change is noticed,
	// at once where the new ones are needed.
	CAFile string
	// AllowTokenHost is a host:port that the discovered token endpoint may have, besides BaseURL's; without a port, 443 is meant.
	AllowTokenHost string
	// Audience and Scope are asked for in place of what the platform's discovery document says.
	Audience, Scope string
	// Patience is how long a caller waits for a first token while the exchange says "not yet" or is not there; 2 minutes.
	Patience time.Duration
	// Transport carries discovery and exchange, in place of one made for CAFile.
	Transport http.RoundTripper
	// Failed is told of exchanges that failed. The error holds no token. It may be nil, must not block, and may be
	// called by several goroutines.
	Failed func(error)
}

// WorkloadFromEnv makes a Workload of the environment that the platform sets up, or ErrNoIdentity.
func WorkloadFromEnv() (*Workload, error) {
	o, err := EnvOptions(os.Getenv)
	if err != nil {
		return nil, err
	}
	return NewWorkload(o)
}

// EnvOptions reads the environment: NMP_WORKLOAD_IDENTITY_TOKEN_FILE, without which there is no identity (ErrNoIdentity),
// NMP_BASE_URL and NMP_CLIENT_SSL_CERT_FILE. NMP_PRINCIPAL beside a token file is an error: one says who the workload claims to be, the
// other proves it, and whoever set the first may expect it to count. An empty variable counts as absent.
func EnvOptions(getenv func(string) string) (WorkloadOptions, error) {
	o := WorkloadOptions{TokenFile: getenv(wire.EnvSubjectTokenFile), BaseURL: getenv(wire.EnvBaseURL), CAFile: getenv(wire.EnvCAFile)}
	switch {
	case o.TokenFile == "":
		return o, ErrNoIdentity
	case getenv(wire.EnvPrincipal) != "":
		return o, errors.New(wire.EnvPrincipal + " and " + wire.EnvSubjectTokenFile + " contradict each other: unset " + wire.EnvPrincipal)
	case o.BaseURL == "":
		return o, errors.New(wire.EnvSubjectTokenFile + " is set and " + wire.EnvBaseURL + " is not: set it to the platform's URL")
	}
	return o, nil
}

// filled returns the options with their defaults, and the base URL; or what is wrong with them.
func (o WorkloadOptions) filled() (WorkloadOptions, *url.URL, error) {
	fill(&o.Patience, 2*time.Minute)
	switch {
	case o.TokenFile == "":
		return o, nil, errors.New("a token file is needed")
	case o.BaseURL == "":
		return o, nil, errors.New("a base URL is needed")
	case o.Patience < 0:
		return o, nil, errors.New("the patience must be positive")
	case o.Transport != nil && o.CAFile != "":
		return o, nil, errors.New("a transport brings its own CA: leave the CA file out")
	}
	base, err := reach.ParseURL(o.BaseURL)
	if err != nil {
		return o, nil, fmt.Errorf("base URL %q: %w", reach.Redact(o.BaseURL), err)
	}
	if o.AllowTokenHost, err = allowedHost(o.AllowTokenHost); err != nil {
		return o, nil, err
	}
	if o.Transport == nil {
		trust, err := reach.NewTransport(o.CAFile)
		if err != nil {
			return o, nil, err
		}
		o.Transport = trust
	}
	return o, base, nil
}

// allowedHost is a host:port in the spelling of an origin.
func allowedHost(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	if strings.ContainsAny(s, "/@?#* ") {
		return "", fmt.Errorf("allowed token host %q: must be host or host:port", reach.Redact(s))
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.Trim(s, "[]"), "443"
	}
	if host == "" || port == "" {
		return "", fmt.Errorf("allowed token host %q: must be host or host:port", s)
	}
	return net.JoinHostPort(strings.ToLower(host), port), nil
}

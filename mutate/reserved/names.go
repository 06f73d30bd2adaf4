// Package reserved knows the environment variables that belong to the platform in a managed namespace and finds those that
// somebody else has set: by exact name, by prefix, by an envFrom prefix that could complete one, and by spellings that
// only look like one. It judges names, never where a value comes from, since a value may come from places that are not
// invented yet. The policies that run inside the API server are generated from the same tables.
package reserved

import (
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// EndpointPrefix and EndpointSuffix enclose the names NMP_*_URL, by which the SDK finds the platform's services. The part
// between them may be empty.
const (
	EndpointPrefix = "NMP_"
	EndpointSuffix = "_URL"
)

// Exact returns the names that are reserved as they stand, in the order in which tombstones are written.
func Exact() []string {
	return []string{
		wire.EnvPrincipal,
		wire.EnvAccessToken,
		wire.EnvWorkloadToken,
		wire.EnvWorkloadTokenFile,
		wire.EnvSubjectTokenFile,
	}
}

// Prefixes returns the beginnings that reserve every name that carries them, the bare prefix included.
func Prefixes() []string {
	return []string{"NMP_WORKLOAD_", "NEMO_WORKLOAD_", "NMP_WORKFLOW_", "NEMO_WORKFLOW_"}
}

// Endpoints returns the endpoint names that are exact. NMP_*_URL (EndpointPrefix, EndpointSuffix) comes on top.
func Endpoints() []string {
	return []string{wire.EnvBaseURL, wire.EnvCAFile}
}

// Reserved says whether name is one of Exact or begins with one of Prefixes. The comparison is byte by byte: what merely
// resembles a reserved name is LookAlike's affair.
func Reserved(name string) bool {
	// Most variables of a pod begin otherwise, and this runs for every one of them.
	if !strings.HasPrefix(name, "N") {
		return false
	}
	switch name {
	case wire.EnvPrincipal, wire.EnvAccessToken, wire.EnvWorkloadToken, wire.EnvWorkloadTokenFile, wire.EnvSubjectTokenFile:
		return true
	}
	return strings.HasPrefix(name, "NMP_WORKLOAD_") || strings.HasPrefix(name, "NEMO_WORKLOAD_") ||
		strings.HasPrefix(name, "NMP_WORKFLOW_") || strings.HasPrefix(name, "NEMO_WORKFLOW_")
}

// Endpoint says whether name tells the SDK where to send its token or whom to trust there: one of Endpoints, or NMP_*_URL.
func Endpoint(name string) bool {
	if name == wire.EnvBaseURL || name == wire.EnvCAFile {
		return true
	}
	return len(name) >= len(EndpointPrefix)+len(EndpointSuffix) &&
		strings.HasPrefix(name, EndpointPrefix) && strings.HasSuffix(name, EndpointSuffix)
}

// Completes says whether an envFrom prefix, put in front of some key, could give a reserved name: an exact name begins with
// it, or it and one of Prefixes agree as far as the shorter one goes. The empty prefix never does here: what comes in
// without a prefix is answered by tombstones. The name is the first that could be completed.
func Completes(prefix string) (name string, ok bool) {
	if prefix == "" {
		return "", false
	}
	for _, n := range Exact() {
		if strings.HasPrefix(n, prefix) {
			return n, true
		}
	}
	for _, p := range Prefixes() {
		if strings.HasPrefix(p, prefix) || strings.HasPrefix(prefix, p) {
			return p + "*", true
		}
	}
	return "", false
}

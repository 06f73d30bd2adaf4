package exchange

import (
	"net/http"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// callout says whether a path is the gateways'.
func callout(path string) bool {
	rest, found := strings.CutPrefix(path, wire.PathAuthenticate)
	return found && (rest == "" || rest[0] == '/')
}

// route serves the exact paths. There is no redirect and no trailing slash.
func (d *Desk) route(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == wire.PathToken:
		d.token(w, r)
	case path == wire.PathDiscovery:
		d.document(w, r, d.documents.discovery)
	case path == wire.PathJWKS:
		d.jwks(w, r)
	case d.documents.metadataPath(path):
		d.document(w, r, d.documents.metadata)
	default:
		writeError(w, http.StatusNotFound, "not_found", "there is nothing at this path")
	}
}

// reading says whether the method only reads, and answers if it does not.
func reading(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "this document can only be read")
	return false
}

package client

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

// origins are the places that tokens are sent to.
type origins map[string]bool

// newOrigins reads a list such as "https://api.example:8443"; a path is refused, since it would not be looked at.
func newOrigins(list []string) (origins, error) {
	set := origins{}
	for _, raw := range list {
		u, err := reach.ParseURL(raw)
		if err == nil && strings.Trim(u.Path, "/") != "" {
			err = errors.New("must end after the host and port")
		}
		if err != nil {
			return nil, fmt.Errorf("origin %q: %w", reach.Redact(raw), err)
		}
		origin, _ := reach.Origin(u) // ParseURL has asked
		set[origin] = true
	}
	return set, nil
}

// has says whether a URL leads to one of the origins.
func (o origins) has(u *url.URL) bool {
	origin, err := reach.Origin(u)
	return err == nil && o[origin]
}

func (o origins) format(f fmt.State) {
	_, _ = fmt.Fprintf(f, "access tokens for %s", strings.Join(slices.Sorted(maps.Keys(o)), ", "))
}

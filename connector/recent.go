package connector

import (
	"cmp"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// Recent remembers who has violated the rule lately, so that mode audit answers the question which callers enforce would
// break. It holds a bounded number of entries, one for each reason and caller; the one not seen for the longest time goes first.
type Recent struct {
	most int
	mu   sync.Mutex
	seen map[who]*Violation
}

// recentMost is how many entries a Recent holds.
const recentMost = 256

// who tells entries apart.
type who struct {
	reason nodebinding.Reason
	caller string
	pod    string
	user   int64
}

// Violation is one entry. What the caller sent is in it only where it looks like the name of a node.
type Violation struct {
	Reason nodebinding.Reason `json:"reason"`
	// Caller, PodUID and Credential are the verified identity; empty for callers without one.
	Caller     string `json:"caller,omitempty"`
	PodUID     string `json:"podUID,omitempty"`
	Credential string `json:"credentialID,omitempty"`
	// User is the user ID at the other end of the Unix socket, a hint; -1 if it is not known.
	User int64 `json:"user"`
	// Named is the node that the last offending event named, if any.
	Named string `json:"named,omitempty"`
	// LetThrough says whether the last batch went on all the same (AuthMode audit).
	LetThrough bool      `json:"letThrough"`
	Count      int64     `json:"count"`
	First      time.Time `json:"first"`
	Last       time.Time `json:"last"`
}

// NewRecent returns an empty list.
func NewRecent() *Recent { return &Recent{most: recentMost, seen: map[who]*Violation{}} }

// add counts a violation.
func (r *Recent) add(v Violation, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := who{v.Reason, v.Caller, v.PodUID, v.User}
	old, ok := r.seen[key]
	if !ok {
		if len(r.seen) >= r.most {
			r.forget()
		}
		v.First, v.Count = now, 0
		old = &v
		r.seen[key] = old
	}
	old.Count++
	old.Last, old.Named, old.LetThrough, old.Credential = now, v.Named, v.LetThrough, v.Credential
}

// forget drops the entry that has not been seen for the longest time.
func (r *Recent) forget() {
	var oldest *who
	for k, v := range r.seen {
		if oldest == nil || v.Last.Before(r.seen[*oldest].Last) {
			oldest = &k
		}
	}
	if oldest != nil {
		delete(r.seen, *oldest)
	}
}

// List returns the entries, the last seen first.
func (r *Recent) List() []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Violation, 0, len(r.seen))
	for v := range maps.Values(r.seen) {
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b Violation) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Reason, b.Reason)) })
	return out
}

// ServeHTTP answers GET /debug/violations with the list as JSON, to callers on this machine's loopback address alone: the
// list names accounts and nodes. A name in the Host header that is no loopback address is refused too, so that a web page
// cannot have a browser on this machine read it.
func (r *Recent) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !loopback(req.RemoteAddr) || !loopback(req.Host) {
		http.Error(w, "asked for by the loopback address only", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct {
		Violations []Violation `json:"violations"`
	}{r.List()})
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// shown is a node's name as the caller wrote it, if it could be one. Anything else may be whatever the caller wanted to see
// in a log, a token for instance, and is shown by its length alone.
func shown(name string) string {
	if name == "" || wire.DNSSubdomain(name) {
		return name
	}
	return "[not a node's name, " + strconv.Itoa(len(name)) + " bytes]"
}

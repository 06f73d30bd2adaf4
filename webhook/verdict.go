package webhook

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"runtime"
	"strconv"

	"github.com/lanyard-k8s/lanyard/mutate"
)

// verdict is what became of a request. failed is an HTTP error; refused is a denial within a review; neither means allowed.
type verdict struct {
	outcome     mutate.Outcome
	decision    mutate.Decision
	refused     *status
	failed      *status
	warnings    []string
	annotations []annotation
	stage       string // of decode_errors_total, when something could not be read
	cause       string // for the log: what could not be read, without content
}

// judge decides a request whose body was read. A panic in a room is a fault of ours and not the object's: the answer is an
// HTTP error, so that failurePolicy decides, as it does when nobody answers at all.
func (d *Desk) judge(h hook, body []byte, rv *review) (v *verdict) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error(nil, "panic while deciding", "hook", h.name, "panic", panicText(p), "stack", stack())
			v = &verdict{outcome: outcomePanicked, failed: &status{
				code: http.StatusInternalServerError, uid: rv.uid,
				message: "Lanyard's webhook met a fault of its own while deciding; its log says more",
			}}
		}
	}()
	if err := parseReview(body, rv); err != nil {
		return d.malformed(rv, stageReview, err)
	}
	decide, err := d.route(h, rv)
	if err != nil {
		return d.malformed(rv, stageReview, err)
	}
	decision, err := decide(mutate.Request{
		Entry: h.entry, Operation: mutate.Operation(rv.operation), Kind: rv.objectKind, Subresource: rv.subresource,
		Namespace: rv.namespace, Username: rv.username, Groups: rv.groups, Object: rv.object, OldObject: rv.oldObject,
	}, d.rules)
	if err != nil {
		return d.malformed(rv, stageObject, err)
	}
	return d.settle(decision)
}

// settle turns a decision into a verdict. An outcome that does not allow refuses, the zero value among them.
func (d *Desk) settle(decision mutate.Decision) *verdict {
	v := &verdict{outcome: decision.Outcome, decision: decision, warnings: decision.Warnings}
	if !decision.Outcome.Allows() {
		v.outcome, v.decision.Outcome = mutate.Denied, mutate.Denied
		v.refused = refuse(&decision, d.rules.DocsURL)
	}
	v.annotations = annotationsOf(&v.decision, d.version)
	return v
}

// malformed refuses what could not be read: within the review when its uid is known, so that it is a denial under every
// failurePolicy, else as an HTTP error. The sentence never repeats content.
func (d *Desk) malformed(rv *review, stage string, err error) *verdict {
	v := &verdict{outcome: outcomeMalformed, stage: stage, cause: err.Error()}
	var unexpected *unexpectedError
	if errors.As(err, &unexpected) {
		v.outcome, v.stage = outcomeUnexpected, ""
	}
	s := &status{code: http.StatusBadRequest, reason: reasonFor(http.StatusBadRequest), message: err.Error()}
	if rv.uid == "" || (rv.apiVersion != apiV1 && rv.apiVersion != apiV1Beta1) {
		v.failed = s
		return v
	}
	v.refused = s
	return v
}

func unreadable(code int, stage string, err error) *verdict {
	return &verdict{outcome: outcomeMalformed, stage: stage, cause: err.Error(), failed: &status{code: code, message: err.Error()}}
}

// overloaded answers 429. The API server's client tries again after a second, within the call's own timeout.
func overloaded(w http.ResponseWriter) *verdict {
	w.Header().Set("Retry-After", "1")
	return &verdict{outcome: outcomeOverloaded, cause: errBusy.Error(), failed: &status{
		code: http.StatusTooManyRequests, message: "Lanyard's webhook is answering as many requests as it may at a time; try again",
	}}
}

func checkHeaders(w http.ResponseWriter, r *http.Request) *verdict {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return unreadable(http.StatusMethodNotAllowed, stageRequest, errors.New("reviews are sent by POST"))
	}
	kind := r.Header.Get("Content-Type")
	if kind != "application/json" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			return unreadable(http.StatusUnsupportedMediaType, stageRequest, errors.New("reviews are sent as application/json"))
		}
	}
	return nil
}

func writeStatus(w http.ResponseWriter, s *status) {
	if s.reason == "" {
		s.reason = reasonFor(s.code)
	}
	writeJSON(w, s.code, append(appendStatus(nil, s), '\n'))
}

func writeJSON(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	// The only error is a client that has gone away; there is nobody left to tell.
	_, _ = w.Write(body)
}

// panicText names a panic without its value, which may hold a piece of the object. What the Go runtime itself raises holds
// numbers and type names only.
func panicText(p any) string {
	if e, ok := p.(runtime.Error); ok {
		return e.Error()
	}
	return fmt.Sprintf("%T", p)
}

// stack lists functions and lines. The usual dump would show arguments too.
func stack() []string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var out []string
	for {
		f, more := frames.Next()
		out = append(out, f.Function+":"+strconv.Itoa(f.Line))
		if !more {
			return out
		}
	}
}

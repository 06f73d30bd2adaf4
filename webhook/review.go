package webhook

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lanyard-k8s/lanyard/mutate"
)

// The versions of AdmissionReview that are understood. They differ in nothing that is read or written here.
const (
	apiV1      = "admission.k8s.io/v1"
	apiV1Beta1 = "admission.k8s.io/v1beta1"
	kindReview = "AdmissionReview"
)

// review is the part of an AdmissionReview that a decision needs. object and oldObject are parts of the body.
type review struct {
	apiVersion  string
	kind        string
	uid         string
	objectKind  mutate.GroupKind
	group       string
	resource    string
	subresource string
	namespace   string
	operation   string
	username    string
	groups      []string
	dryRun      bool
	object      []byte
	oldObject   []byte
}

// errMalformed is what every error of parseReview and route is, for errors.Is.
var errMalformed = errors.New("malformed review")

// errTwice is a known name that stands twice in one object.
var errTwice = malformed("a name stands twice in an object of the review")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errMalformed}, args...)...)
}

// parseReview fills rv from a body as far as it can be read, so that the uid can be echoed even when what follows it is
// broken. Names are compared exactly, as the API server does; a known name that stands twice is refused. Names inside the
// objects are not looked at: the room that reads an object refuses its duplicates.
func parseReview(body []byte, rv *review) error {
	p := parser{body: body, dec: jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))}
	if err := p.object(rv.topField); err != nil {
		return p.explain(err)
	}
	if rest := bytes.TrimLeft(body[p.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return malformed("something follows the review")
	}
	switch {
	case rv.kind != kindReview:
		return malformed("kind must be AdmissionReview")
	case rv.apiVersion != apiV1 && rv.apiVersion != apiV1Beta1:
		return malformed("apiVersion must be %s or %s", apiV1, apiV1Beta1)
	case rv.uid == "":
		return malformed("request.uid is missing")
	}
	return nil
}

package webhook

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lanyard-k8s/lanyard/mutate"
)

// answer is the response part of a review before it is written as JSON. Without a status it allows.
type answer struct {
	apiVersion  string
	uid         string
	status      *status
	patch       []mutate.Op
	warnings    []string
	annotations []annotation
}

// status is the part of metav1.Status that people get to see.
type status struct {
	code    int
	reason  string
	message string
	uid     string // details.uid, in HTTP errors only
	causes  []cause
}

// cause is one metav1.StatusCause.
type cause struct {
	reason  string
	message string
	field   string
}

// annotation is one audit annotation. They are kept in a list, in a fixed order, so that equal requests get equal bytes.
type annotation struct {
	key   string
	value string
}

// appendAnswer writes an AdmissionReview by hand: the typed one would be marshalled by reflection, and the patch twice.
// patch and patchType stand together or not at all, since the API server refuses an answer that has only one.
func appendAnswer(b []byte, a *answer, scratch []byte) (out, used []byte) {
	b = append(b, `{"kind":"AdmissionReview","apiVersion":`...)
	b = quote(b, a.apiVersion)
	b = append(b, `,"response":{"uid":`...)
	b = quote(b, a.uid)
	b = append(b, `,"allowed":`...)
	b = strconv.AppendBool(b, a.status == nil)
	if a.status != nil {
		b = append(b, `,"status":`...)
		b = appendStatus(b, a.status)
	}
	if a.status == nil && len(a.patch) > 0 {
		scratch = appendPatch(scratch[:0], a.patch)
		b = append(b, `,"patch":"`...)
		b = base64.StdEncoding.AppendEncode(b, scratch)
		b = append(b, `","patchType":"JSONPatch"`...)
	}
	b = appendAnnotations(b, a.annotations)
	b = appendWarnings(b, a.warnings)
	return append(b, "}}\n"...), scratch
}

func appendPatch(b []byte, ops []mutate.Op) []byte {
	b = append(b, '[')
	for i, op := range ops {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"op":`...)
		b = quote(b, op.Op)
		b = append(b, `,"path":`...)
		b = quote(b, op.Path)
		b = append(b, `,"value":`...)
		b = append(b, op.Value...)
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendAnnotations(b []byte, list []annotation) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, `,"auditAnnotations":{`...)
	for i, a := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = quote(b, a.key)
		b = append(b, ':')
		b = quote(b, a.value)
	}
	return append(b, '}')
}

func appendWarnings(b []byte, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, `,"warnings":[`...)
	for i, w := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = quote(b, w)
	}
	return append(b, ']')
}

func appendStatus(b []byte, s *status) []byte {
	b = append(b, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":`...)
	b = quote(b, s.message)
	b = append(b, `,"reason":`...)
	b = quote(b, s.reason)
	if s.uid != "" || len(s.causes) > 0 {
		b = append(b, `,"details":{`...)
		if s.uid != "" {
			b = append(b, `"uid":`...)
			b = append(quote(b, s.uid), ',')
		}
		b = appendCauses(b, s.causes)
	}
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(s.code), 10)
	return append(b, '}')
}

// appendCauses ends the details that appendStatus began.
func appendCauses(b []byte, list []cause) []byte {
	b = append(b, `"causes":[`...)
	for i, c := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"reason":`...)
		b = quote(b, c.reason)
		b = append(b, `,"message":`...)
		b = quote(b, c.message)
		b = append(b, `,"field":`...)
		b = quote(b, c.field)
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

// quote appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD, which is all that its error ever says.
func quote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// reasonFor is the metav1.StatusReason of a status code, which clients such as kubectl show and controllers compare.
func reasonFor(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "BadRequest"
	case http.StatusForbidden:
		return "Forbidden"
	case http.StatusNotFound:
		return "NotFound"
	case http.StatusMethodNotAllowed:
		return "MethodNotAllowed"
	case http.StatusRequestTimeout:
		return "Timeout"
	case http.StatusRequestEntityTooLarge:
		return "RequestEntityTooLarge"
	case http.StatusUnsupportedMediaType:
		return "UnsupportedMediaType"
	case http.StatusTooManyRequests:
		return "TooManyRequests"
	default:
		return "InternalError"
	}
}

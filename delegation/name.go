package delegation

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The prefixes of row names, and how many hex digits follow the hyphen.
const (
	prefixJob    = "job"
	prefixDocker = "docker"
	prefixRef    = "ref"
	nameDigits   = 48
)

// ReferencePodUID is the bound reference of a Kubernetes row: the key under which TokenReview tells the pod's UID.
const ReferencePodUID = "authentication.kubernetes.io/pod-uid"

// ReferenceContainer is the bound reference of a Docker row: the container's id, known once it has been created.
const ReferenceContainer = "docker/container-id"

// JobName is the row name for platforms that write submissions themselves.
func JobName(workspace, job, attempt, step string) string {
	return rowName(prefixJob, workspace, job, attempt, step)
}

// DockerName is the row name of a container; kind and id say what the container belongs to.
func DockerName(workspace, kind, id, generation string) string {
	return rowName(prefixDocker, workspace, kind, id, generation)
}

// PodName is the row name of a pod: the audience of our access tokens, the verified username of its service account and
// its UID. All three come from the review and the configuration, never from what a token or an object says of itself.
func PodName(issuedAudience, username, podUID string) string {
	return rowName(prefixRef, issuedAudience, username, ReferencePodUID, podUID)
}

// rowName is "<prefix>-" and the first 48 hex digits of the SHA-256 over the words as a compact JSON array.
func rowName(prefix string, words ...string) string {
	sum := sha256.Sum256(appendArray(nil, words))
	return prefix + "-" + hex.EncodeToString(sum[:])[:nameDigits]
}

// appendArray appends a JSON array of strings without spaces. Only what JSON demands is escaped: the quote, the backslash
// and controls below 0x20, five of them in their short form. encoding/json escapes more, and the names would differ from
// those that other implementations compute. Bytes that are no UTF-8 are kept as they are, so that two lists never
// share an encoding.
func appendArray(b []byte, words []string) []byte {
	b = append(b, '[')
	for i, w := range words {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, w)
	}
	return append(b, ']')
}

func appendString(b []byte, s string) []byte {
	const short = "\"\"\\\\\bb\ff\nn\rr\tt" // each byte that has a short form, and the letter after its backslash
	b = append(b, '"')
	for i := range len(s) {
		c := s[i]
		at := -1
		if c < 0x20 || c == '"' || c == '\\' {
			at = strings.IndexByte(short, c)
		}
		switch {
		case at >= 0:
			b = append(b, '\\', short[at+1])
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&0xf])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// ValidName says whether s has the shape of a row name, which is all that a name can show of itself.
func ValidName(s string) bool {
	prefix, digits, found := strings.Cut(s, "-")
	if !found || len(digits) != nameDigits || (prefix != prefixJob && prefix != prefixDocker && prefix != prefixRef) {
		return false
	}
	for i := range len(digits) {
		if c := digits[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

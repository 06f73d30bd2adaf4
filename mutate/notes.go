package mutate

import (
	"strconv"
	"strings"

	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// Warnings are bounded, here and nowhere else: kubectl prints each on a line of its own, and the API server cuts long ones. They
// travel in an HTTP header, so that no control character may be in them.
const (
	MaxWarnings      = 5
	MaxWarningLength = 120
)

// notes are what a person should hear about a request that goes through.
type notes struct {
	endpoints  note
	lookAlikes note
	envFrom    note
	unknown    note
	clamped    int64
	grace      int64 // the token's lifetime, when the grace period is too long for it
	crossNode  bool
}

// note counts places and keeps the first.
type note struct {
	count int
	first string
}

func (n *note) mark(field string) {
	if n.count == 0 {
		n.first = field
	}
	n.count++
}

// add marks a container; the path is written only for the first.
func (n *note) add(base string, s seat) {
	if n.count > 0 {
		n.count++
		return
	}
	n.mark(base + "spec." + string(s.list) + "[" + strconv.Itoa(s.index) + "]")
}

// and says how many places there are besides the first.
func (n *note) and() string {
	if n.count < 2 {
		return ""
	}
	return " (+" + strconv.Itoa(n.count-1) + ")"
}

// advise notes what concerns the pod as a whole.
func (v *review) advise() {
	if v.gear == nil || v.standing != entitled || !v.targets.any {
		return
	}
	s := &v.pod.Spec
	// The kubelet stops renewing a token once deletion has begun.
	if s.GracePeriodSeconds > v.gear.expires*8/10 {
		v.notes.grace = v.gear.expires
	}
	if v.gear.role == Publisher && !s.HasNodeSelector && !s.HasAffinity && v.rules.crossNode(v.req.Namespace, s.ServiceAccountName) {
		v.notes.crossNode = true
	}
}

// lines writes the warnings in their order: what was let through first, then what may surprise.
func (n *notes) lines(audited []violation.Violation) []string {
	var out []string
	for i := range audited {
		out = append(out, "audit mode let through "+string(audited[i].Reason)+" at "+audited[i].Field)
	}
	say := func(there bool, parts ...string) {
		if there {
			out = append(out, strings.Join(parts, ""))
		}
	}
	say(n.endpoints.count > 0, n.endpoints.first, n.endpoints.and(), " may send the platform's token elsewhere; remove it")
	say(n.lookAlikes.count > 0, n.lookAlikes.first, n.lookAlikes.and(), " only looks like a platform variable and is not one")
	say(n.clamped > 0, "lanyard.dev/token-expiration-seconds is out of range; the token lives ", strconv.FormatInt(n.clamped, 10), " s")
	say(n.grace > 0, "the grace period is over 0.8 of the token's ", strconv.FormatInt(n.grace, 10), " s; the token may expire before the pod ends")
	say(n.crossNode, "this publisher may name any node: keep it off tenants' nodes by nodeSelector or affinity")
	say(n.envFrom.count > 0, n.envFrom.first, n.envFrom.and(), ": envFrom cannot set the platform's variables; empty entries keep them out")
	say(n.unknown.count > 0, n.unknown.first, ": lanyard.dev/containers names a container that the template does not have")
	return bounded(out)
}

// bounded keeps at most MaxWarnings lines of at most MaxWarningLength characters, none of them a control character.
func bounded(lines []string) []string {
	if len(lines) > MaxWarnings {
		rest := len(lines) - MaxWarnings + 1
		lines = append(lines[:MaxWarnings-1:MaxWarnings-1], "and "+strconv.Itoa(rest)+" more warnings")
	}
	for i, line := range lines {
		lines[i] = cut(strings.Map(inLine, line))
	}
	return lines
}

// inLine has a space in the place of a control character.
func inLine(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// cut shortens a line in its middle, where a long path is.
func cut(line string) string {
	r := []rune(line)
	if len(r) <= MaxWarningLength {
		return line
	}
	half := (MaxWarningLength - 3) / 2
	return string(r[:half]) + "..." + string(r[len(r)-half:])
}

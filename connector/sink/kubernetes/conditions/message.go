package conditions

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a message in bytes, of one entry in it, and of the faults that it stands for.
const (
	messageMost = 1024
	entryMost   = 640
	hiddenMost  = 48
)

// Healthy is the message of a condition without a fault.
const Healthy = "No Health Failures"

// Faults is what a message says.
type Faults struct {
	// Entries are the faults that the message shows, oldest first.
	Entries []Entry
	// Hidden are digests of faults for which there was no room.
	Hidden []Digest
	// More means that there were faults beyond those. Nothing is known of them, so that only a healthy event without entities
	// clears them.
	More bool
}

// Digest stands for a fault that is not shown: six hexadecimal digits for the set of its entities and six for that of its codes.
type Digest string

// hiddenEntry is how a message ends when faults were left out: "+3 more [digests]", with "or so" when even digests were.
var hiddenEntry = regexp.MustCompile(`^\+[0-9]+ more( or so)? \[([0-9a-f ]*)\]$`)

// Parse reads a message. It understands what Format wrote; anything else becomes entries of plain text.
func Parse(message string) Faults {
	var f Faults
	for part := range strings.SplitSeq(message, separator) {
		part = strings.TrimSpace(part)
		if m := hiddenEntry.FindStringSubmatch(part); m != nil {
			f.More = f.More || m[1] != ""
			for _, d := range strings.Fields(m[2]) {
				f.hide(Digest(d))
			}
			continue
		}
		if e := readEntry(part); e.String() != "" {
			f.add(e)
		}
	}
	return f
}

// Format writes a message of at most 1024 bytes. Entries from the end that do not fit are left out as a whole.
func (f Faults) Format() string {
	for shown := len(f.Entries); ; shown-- {
		rest := Faults{Hidden: slices.Clone(f.Hidden), More: f.More}
		for _, e := range f.Entries[shown:] {
			rest.hide(digestOf(e))
		}
		parts := make([]string, 0, shown+1)
		for _, e := range f.Entries[:shown] {
			parts = append(parts, e.String())
		}
		if tail := rest.tail(); tail != "" {
			parts = append(parts, tail)
		}
		if message := strings.Join(parts, separator); len(message) <= messageMost || shown == 0 {
			return message
		}
	}
}

// tail names what is not shown.
func (f Faults) tail() string {
	if len(f.Hidden) == 0 && !f.More {
		return ""
	}
	digests := make([]string, len(f.Hidden))
	for i, d := range f.Hidden {
		digests[i] = string(d)
	}
	about := ""
	if f.More {
		about = " or so"
	}
	return "+" + strconv.Itoa(len(digests)) + " more" + about + " [" + strings.Join(digests, " ") + "]"
}

// Empty says whether no fault is known.
func (f Faults) Empty() bool { return len(f.Entries) == 0 && len(f.Hidden) == 0 && !f.More }

// add notes a fault. One that is known already gets the newer text and action, and keeps its place.
func (f *Faults) add(e Entry) {
	if i := slices.IndexFunc(f.Entries, e.same); i >= 0 {
		f.Entries[i] = e
		return
	}
	f.Hidden = slices.DeleteFunc(f.Hidden, func(d Digest) bool { return d == digestOf(e) })
	f.Entries = append(f.Entries, e)
}

// hide notes a fault that is not shown.
func (f *Faults) hide(d Digest) {
	switch {
	case len(d) != 12 || slices.Contains(f.Hidden, d):
	case len(f.Hidden) == hiddenMost:
		f.More = true
	default:
		f.Hidden = append(f.Hidden, d)
	}
}

// clear removes what a healthy event clears. Of the faults that are not shown it clears those of exactly its entities, and exactly
// its codes if it has any: a digest tells no more.
func (f *Faults) clear(healthy Entry) {
	if len(healthy.Entities) == 0 {
		*f = Faults{}
		return
	}
	f.Entries = slices.DeleteFunc(f.Entries, func(e Entry) bool { return e.clearedBy(healthy) })
	of := digestOf(healthy)
	f.Hidden = slices.DeleteFunc(f.Hidden, func(d Digest) bool {
		return d[:6] == of[:6] && (len(healthy.Codes) == 0 || d[6:] == of[6:])
	})
}

func digestOf(e Entry) Digest {
	entities := make([]string, len(e.Entities))
	for i, x := range e.Entities {
		entities[i] = x.String()
	}
	codes := e.Codes
	if len(codes)+len(entities) == 0 {
		codes = []string{e.Text} // what tells such faults apart
	}
	return Digest(short(entities) + short(codes))
}

func short(set []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(set)))
	sum := sha256.Sum256([]byte(strings.Join(sorted, "\n")))
	return hex.EncodeToString(sum[:3])
}

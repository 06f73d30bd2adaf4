package socket

import (
	"fmt"
	"os/user"
	"strconv"
)

// nobody is the user that stands for everybody whom a user namespace does not map: whoever comes with it may be anyone.
const nobody = 65534

// Submitters says for which subject a user of this machine submits.
type Submitters struct {
	// Listed are users by their numbers. Root submits only if it is here.
	Listed map[uint32]string
	// Prefix comes before the name of a user who is not listed, such as "unix:build-1:". Empty: nobody else submits.
	Prefix string
	// Overflow is another number that the kernel uses as nobody's (kernel.overflowuid); zero is none.
	Overflow uint32
	// Lookup finds a user's name, user.LookupId's when nil.
	Lookup func(uid string) (*user.User, error)
	// Reserved says which subjects no token may have.
	Reserved func(subject string) bool
}

// refusal is a sentence for the user, and why in one word for the metric and the log. The zero refusal refuses nothing.
type refusal struct {
	why  outcome
	text string
}

// of finds the subject of a user, or says why there is none.
func (s Submitters) of(uid uint32) (string, refusal) {
	if uid == nobody || (s.Overflow != 0 && uid == s.Overflow) {
		return "", refusal{outcomeNobody, fmt.Sprintf("user %d is nobody's own: submit as a user of this machine, outside of user namespaces", uid)}
	}
	if subject, listed := s.Listed[uid]; listed {
		return s.checked(uid, subject)
	}
	switch {
	case uid == 0:
		return "", refusal{outcomeRoot, "root submits no jobs: submit as a user; an operator can list user 0 in docker.submitters"}
	case s.Prefix == "":
		return "", refusal{outcomeUnlisted, fmt.Sprintf("user %d may not submit: an operator can list it in docker.submitters", uid)}
	}
	look := s.Lookup
	if look == nil {
		look = user.LookupId
	}
	found, err := look(strconv.FormatUint(uint64(uid), 10))
	if err != nil || found.Username == "" {
		return "", refusal{outcomeUnlisted, fmt.Sprintf("user %d has no name in /etc/passwd: an operator can list it in docker.submitters", uid)}
	}
	return s.checked(uid, s.Prefix+found.Username)
}

// checked refuses names that no token could carry.
func (s Submitters) checked(uid uint32, subject string) (string, refusal) {
	for i := range len(subject) {
		if subject[i] <= ' ' || subject[i] > '~' {
			return "", refusal{outcomeUnlisted, fmt.Sprintf("the name of user %d cannot stand in a token: an operator can list it in docker.submitters", uid)}
		}
	}
	if subject == "" || len(subject) > 512 || (s.Reserved != nil && s.Reserved(subject)) {
		return "", refusal{outcomeUnlisted, fmt.Sprintf("the subject of user %d is one that no token may have: an operator can change it in docker.submitters", uid)}
	}
	return subject, refusal{}
}

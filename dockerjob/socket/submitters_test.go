package socket

import (
	"errors"
	"os/user"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

func TestSubmitters(t *testing.T) {
	t.Parallel()
	names := map[string]string{"0": "root", "1000": "alice", "1001": "bob", "1002": "with space", "1003": "", "65533": "overflow", "65534": "nobody"}
	look := func(uid string) (*user.User, error) {
		name, ok := names[uid]
		if !ok {
			return nil, errors.New("unknown")
		}
		return &user.User{Uid: uid, Username: name}, nil
	}
	list := Submitters{Listed: map[uint32]string{1000: "alice@example.com", 65534: "nobody@example.com", 7: "system:admin", 8: "Service:x", 9: strings.Repeat("x", 513)}}
	prefix := Submitters{Prefix: "unix:build-1:", Listed: map[uint32]string{1001: "bob@example.com"}}
	root := Submitters{Listed: map[uint32]string{0: "root@build-1"}, Prefix: "unix:build-1:"}
	overflow := Submitters{Prefix: "unix:build-1:", Overflow: 65533}
	tests := map[string]struct {
		who  Submitters
		uid  uint32
		want string
		why  outcome
	}{
		"a listed user":                            {list, 1000, "alice@example.com", ""},
		"a user who is not listed":                 {list, 1001, "", outcomeUnlisted},
		"root, who is not listed":                  {list, 0, "", outcomeRoot},
		"nobody, though listed":                    {list, 65534, "", outcomeNobody},
		"a listed subject of the platform's":       {list, 7, "", outcomeUnlisted},
		"the same in another case":                 {list, 8, "", outcomeUnlisted},
		"a listed subject that no token carries":   {list, 9, "", outcomeUnlisted},
		"a user by name":                           {prefix, 1000, "unix:build-1:alice", ""},
		"a listed user beside a prefix":            {prefix, 1001, "bob@example.com", ""},
		"root beside a prefix":                     {prefix, 0, "", outcomeRoot},
		"nobody beside a prefix":                   {prefix, 65534, "", outcomeNobody},
		"a name that cannot stand in a token":      {prefix, 1002, "", outcomeUnlisted},
		"a user with an empty name":                {prefix, 1003, "", outcomeUnlisted},
		"a user whom nobody knows":                 {prefix, 4711, "", outcomeUnlisted},
		"root, listed":                             {root, 0, "root@build-1", ""},
		"the kernel's own number for nobody":       {overflow, 65533, "", outcomeNobody},
		"the usual number beside the kernel's own": {overflow, 65534, "", outcomeNobody},
		"the zero value":                           {Submitters{}, 1000, "", outcomeUnlisted},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.who.Lookup, tc.who.Reserved = look, grant.Rules{}.Reserved
			got, no := tc.who.of(tc.uid)
			if got != tc.want || no.why != tc.why {
				t.Errorf("got %q, %q (%s)", got, no.why, no.text)
			}
			if (no.text == "") != (tc.why == "") || strings.Contains(no.text, "\n") {
				t.Errorf("the sentence: %q", no.text)
			}
		})
	}
}

package tokenreview

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
)

func TestJudgeBelievesAnHonestReview(t *testing.T) {
	t.Parallel()
	whole := Verdict{
		Username: "system:serviceaccount:gpu:monitor", Namespace: "gpu", ServiceAccount: "monitor", UID: "account-1",
		PodName: "monitor-abc", PodUID: "pod-1", NodeName: "node-1", NodeUID: "node-uid-1", CredentialID: "JTI=1",
	}
	for name, tc := range map[string]struct {
		change func(*authenticationv1.TokenReviewStatus)
		want   func(*Verdict)
	}{
		"of a pod's token": {func(*authenticationv1.TokenReviewStatus) {}, func(*Verdict) {}},
		"with other audiences echoed too": {
			func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"api", audience} }, func(*Verdict) {},
		},
		"of a token bound to nothing": {
			func(s *authenticationv1.TokenReviewStatus) { s.User.Extra = nil },
			func(v *Verdict) { v.PodName, v.PodUID, v.NodeName, v.NodeUID, v.CredentialID = "", "", "", "", "" },
		},
		"with an empty value, which is none": {
			func(s *authenticationv1.TokenReviewStatus) {
				s.User.Extra[extraNodeName] = authenticationv1.ExtraValue{""}
			},
			func(v *Verdict) { v.NodeName = "" },
		},
		"with spaces around a value, which stay": {
			func(s *authenticationv1.TokenReviewStatus) {
				s.User.Extra[extraNodeName] = authenticationv1.ExtraValue{" node-1 "}
			},
			func(v *Verdict) { v.NodeName = " node-1 " },
		},
		"with extras that are not ours": {
			func(s *authenticationv1.TokenReviewStatus) {
				s.User.Extra["example.com/x"] = authenticationv1.ExtraValue{"1", "2"}
			},
			func(*Verdict) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, want := yes("pod-1"), whole
			tc.change(&s)
			tc.want(&want)
			got, err := Judge(s, audience)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// TestJudgeRefusesLyingReviewers is T10, T11, T12 and T20.
func TestJudgeRefusesLyingReviewers(t *testing.T) {
	t.Parallel()
	extra := func(key string, values ...string) func(*authenticationv1.TokenReviewStatus) {
		return func(s *authenticationv1.TokenReviewStatus) { s.User.Extra[key] = values }
	}
	username := func(name string) func(*authenticationv1.TokenReviewStatus) {
		return func(s *authenticationv1.TokenReviewStatus) { s.User.Username = name }
	}
	for name, change := range map[string]func(*authenticationv1.TokenReviewStatus){
		"not authenticated":                   func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false },
		"nothing at all":                      func(s *authenticationv1.TokenReviewStatus) { *s = authenticationv1.TokenReviewStatus{} },
		"T11 an error beside the yes":         func(s *authenticationv1.TokenReviewStatus) { s.Error = "lookup failed" },
		"T12 no audiences":                    func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil },
		"T12 another audience":                func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"api"} },
		"T12 our audience in upper case":      func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"CONNECTOR.EXAMPLE"} },
		"T12 our audience with a space":       func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{audience + " "} },
		"T10 anonymous":                       username("system:anonymous"),
		"T10 a person":                        username("alice"),
		"T10 a node":                          username("system:node:node-1"),
		"T10 upper case":                      username("system:serviceaccount:GPU:monitor"),
		"T10 a trailing space":                username("system:serviceaccount:gpu:monitor "),
		"T10 a part too many":                 username("system:serviceaccount:gpu:monitor:x"),
		"T10 no namespace":                    username("system:serviceaccount::monitor"),
		"T10 outside the group of accounts":   func(s *authenticationv1.TokenReviewStatus) { s.User.Groups = []string{"system:authenticated"} },
		"T10 without a UID":                   func(s *authenticationv1.TokenReviewStatus) { s.User.UID = "" },
		"T20 two pods":                        extra(extraPodUID, "pod-1", "pod-2"),
		"T20 the same pod twice":              extra(extraPodUID, "pod-1", "pod-1"),
		"T20 an empty list of pod names":      extra(extraPodName),
		"T20 two nodes":                       extra(extraNodeName, "node-1", "node-2"),
		"T20 an empty list of node UIDs":      extra(extraNodeUID),
		"T20 two credential ids, one is none": extra(extraCredentialID, "JTI=1", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := yes("pod-1")
			change(&s)
			got, err := Judge(s, audience)
			if !errors.Is(err, ErrInvalid) || ReasonOf(err) != TokenInvalid {
				t.Errorf("error = %v, want %s", err, TokenInvalid)
			}
			if got != (Verdict{}) {
				t.Errorf("verdict %+v beside a refusal", got)
			}
		})
	}
	t.Run("T10 a yes that names nobody is the reviewer's fault, not the token's", func(t *testing.T) {
		t.Parallel()
		s := yes("pod-1")
		s.User = authenticationv1.UserInfo{}
		if got, err := Judge(s, audience); ReasonOf(err) != ValidatorError || !errors.Is(err, ErrInternal) || got != (Verdict{}) {
			t.Errorf("got %+v, error = %v, want %s", got, err, ValidatorError)
		}
	})
	t.Run("an empty audience matches nothing", func(t *testing.T) {
		t.Parallel()
		s := yes("pod-1")
		s.Audiences = []string{""}
		if _, err := Judge(s, ""); ReasonOf(err) != TokenInvalid {
			t.Errorf("error = %v, want %s", err, TokenInvalid)
		}
	})
}

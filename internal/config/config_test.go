package config

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"audience", "mode", "tokenExpirationSeconds", "tokenMountPath"}
	tests := map[string]string{
		"audiance": "audience", "Mode": "mode", "tokenExpirySeconds": "tokenExpirationSeconds", "tokenMontPath": "tokenMountPath",
		"x": "", "somethingElse": "", "": "",
	}
	for word, want := range tests {
		if got := Nearest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestFaultsReadAsLines(t *testing.T) {
	t.Parallel()
	root := Parse([]byte("a: 1\nb: {c: true, c: false}\nd: null\n"))
	root.String("a", "")
	root.Section("b").Bool("c", false)
	root.String("d", "")
	root.Required("e", "an e")
	root.FaultAt("a", "never shown, since a has a fault already")
	root.FaultAt("b", "shown with its line")
	err := root.Err()
	want := `5 faults:
  a: must be a string, not a number (line 1)
  b: shown with its line (line 2)
  b.c: stands twice, first on line 2; remove one (line 2)
  d: is null; remove the key to get the default, or write the value that you mean ([] for an empty list) (line 3)
  e: must be given: an e`
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTextsChecksEveryEntry(t *testing.T) {
	t.Parallel()
	root := Parse([]byte("users: {1000: alice, 1001: 5, 1002: '', 1003: null, bob: carol, 1000: dave}\nother: [x]\n"))
	got := root.Texts("users", func(name, text string) error {
		if name == "bob" {
			return errors.New("must be a number")
		}
		return nil
	})
	if diff := cmp.Diff(map[string]string{"1000": "alice"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if root.Texts("absent", nil) != nil || len(root.Texts("other", nil)) != 0 {
		t.Error("an absent mapping, or a list, has entries")
	}
	want := `6 faults:
  users.1000: stands twice, first on line 1; remove one (line 1)
  users.1001: must be a string, not a number (line 1)
  users.1002: is empty; remove the key to get the default, or write a value (line 1)
  users.1003: is null; remove the key to get the default, or write the value that you mean ([] for an empty list) (line 1)
  users.bob: must be a number (line 1)
  other: must be a mapping, not a list (line 2)`
	if diff := cmp.Diff(want, root.Err().Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzParseNeverPanicsAndUnknownKeysAreNeverTaken(f *testing.F) {
	f.Add([]byte("a: 1\n"))
	f.Add([]byte("a: &x [*x]\n? {b: c}\n: d\n"))
	f.Add([]byte("---\n...\n---\na: b"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		root := Parse(raw)
		if err := root.Err(); err == nil && len(root.order) > 0 {
			t.Errorf("%d unknown keys were taken", len(root.order))
		}
	})
}

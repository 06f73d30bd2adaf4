package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
)

// TestWhatIsErasedIsGone looks for an erased submitter's name, and for a proof's secret, in every byte of the files (G7).
func TestWhatIsErasedIsGone(t *testing.T) {
	t.Parallel()
	dir := migrated(t)
	s := open(t, dir)
	defer func() { _ = s.Close() }()
	sub, secret := delegationtest.Submission("j1"), delegation.Secret{}
	copy(secret[:], "MARKED-SECRET-MARKED-SECRET-MARK")
	sub.Submitter = "MARKED-NAME"
	row := delegationtest.DockerRow("j1", "a")
	row.ProofHash = secret.Hash()
	_, err := s.Confirm(t.Context(), sub)
	if err == nil {
		_, err = s.Put(t.Context(), row)
	}
	if err == nil {
		_, err = s.Revoke(t.Context(), delegation.Revocation{Submission: "j1", Reason: delegation.SubmissionRevoked, At: delegationtest.At(1)})
	}
	if err != nil {
		t.Fatal(err)
	}
	if !found(t, dir, "MARKED-NAME") || found(t, dir, "MARKED-SECRET") || !found(t, dir, string(row.ProofHash)) {
		t.Error("before: the name and the hash must be there, the secret never")
	}
	if got, err := s.Collect(t.Context(), delegation.Collection{Submitters: delegationtest.At(9)}); err != nil || got.Submitters != 1 {
		t.Fatalf("collected %+v, %v", got, err)
	}
	if found(t, dir, "MARKED-NAME") {
		t.Error("the erased name is still in the files")
	}
}

func found(t *testing.T, dir, text string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}

package policy

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadSettings(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(defaults())
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadSettings(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaults(), got); diff != "" {
		t.Errorf("settings (-written +read):\n%s", diff)
	}
	for name, bad := range map[string]string{
		"a key of another version":   `{"jobs": true, "paramRefs": []}`,
		"a key of a row":             `{"kinds": [{"group": "batch", "creators": []}]}`,
		"something after the object": `{"jobs": true} {}`,
		"nothing":                    ``,
		"a list":                     `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := ReadSettings([]byte(bad)); err == nil {
				t.Error("was read")
			}
		})
	}
}

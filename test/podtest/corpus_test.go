package podtest

import (
	"bytes"
	"testing"
)

func TestCorpusHasItsSizes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		build            func() []byte
		wantMin, wantMax int
	}{
		"small":  {Small, 2_500, 3_500},
		"medium": {Medium, 12_000, 13_200},
		"large":  {Large, 230_000, 270_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.build()
			if len(got) < tc.wantMin || len(got) > tc.wantMax {
				t.Errorf("the %s pod has %d bytes, want %d to %d", name, len(got), tc.wantMin, tc.wantMax)
			}
			if !bytes.Equal(got, tc.build()) {
				t.Error("two builds differ")
			}
		})
	}
}

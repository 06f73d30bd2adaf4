package jobspec_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// TestAmounts: what a user may write takes no time to read, whatever it says. resource.ParseQuantity works for minutes on the largest
// exponent that it takes.
func TestAmounts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0", "2", "500m", "+1.5", "1.", ".5", "512Mi", "1Ki", "8E", "100n", "3u", "1e3", "1E-3", "12e+2", "9223372036854775807", "1e99", "-1"} {
		want, err := resource.ParseQuantity(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := jobspec.ParseAmount(text); err != nil || got.Cmp(want) != 0 {
			t.Errorf("%s: %s, %v", text, got.String(), err)
		}
	}
	began := time.Now()
	for _, text := range []string{
		"", "x", "1e2147483647", "-1e2147483647", "1e-2147483648", "1E100", "1e-100", ".", "+", "1 ", " 1", "1\n", "1KI", "1ki", "1mi", "0x10", "1e", "1_000",
		strings.Repeat("9", 20), strings.Repeat("9", 1<<18), "0." + strings.Repeat("1", 1<<18), "\u0661",
	} {
		if got, err := jobspec.ParseAmount(text); !errors.Is(err, jobspec.ErrAmount) {
			t.Errorf("%.20q: %s, %v", text, got.String(), err)
		}
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("to refuse them took %s", took)
	}
}

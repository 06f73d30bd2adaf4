package memory

import "testing"

func TestSoftLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"268435456": 241591911, "10": 9, "": 0, "off": 0, "230MiB": 0, "-1": 0, "0": 0, "9223372036854775808": 0,
	} {
		if got, given := softLimit(text); got != want || given != (want > 0) {
			t.Errorf("%q: %d, %t; want %d", text, got, given, want)
		}
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"": 200, "1000": 200, "100": 90, "off": 0, "230MiB": 0} {
		if got, ours := within(text, 200); ours != (want > 0) || ours && got != want {
			t.Errorf("%q: %d, %t; want %d", text, got, ours, want)
		}
	}
}

// Package memory keeps a program within the memory that its container may have.
package memory

import (
	"os"
	"runtime/debug"
	"strconv"
)

// envMemory is where Go's runtime finds its soft limit.
const envMemory = "GOMEMLIMIT"

// softLimit is nine tenths of a container's limit, which is what a number without a unit is taken for: a field of the pod gives the limit to
// the byte and cannot do sums. The rest is for what the runtime does not count and for the moment in which it collects. What is written
// with a unit, or is "off", somebody has chosen: the runtime has taken it as it stands.
func softLimit(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, false
	}
	return n - n/10, true
}

// Heed has the runtime collect before the container's limit ends the process.
func Heed() {
	if limit, given := softLimit(os.Getenv(envMemory)); given {
		debug.SetMemoryLimit(limit)
	}
}

// Stay has the runtime collect before it has more than most, which is what the program needs. A container's limit that is lower stands, and so
// does what somebody has chosen.
func Stay(most int64) {
	if limit, ours := within(os.Getenv(envMemory), most); ours {
		debug.SetMemoryLimit(limit)
	}
}

// within is the lower of both, or nothing where somebody has chosen.
func within(text string, most int64) (int64, bool) {
	limit, given := softLimit(text)
	if given {
		return min(limit, most), true
	}
	return most, text == ""
}

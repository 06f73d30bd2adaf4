package arch

import (
	"slices"
	"strings"
)

// kind is what a room is for; it decides which rooms it may import.
type kind string

const (
	words kind = "words"      // api/...: words that cross a process; imports nothing of ours
	pure  kind = "pure room"  // decides from its arguments alone
	desk  kind = "front desk" // speaks a protocol or to a person
	notes kind = "records"    // what is kept: types and their state machines, without whatever keeps them
	leaf  kind = "leaf"       // what everybody needs, the SDK too; imports nothing of ours
	aid   kind = "internal"   // shared by front desks; the stores of records too, which speak to databases
	sdk   kind = "client"     // what others import
	door  kind = "program"    // cmd/...
	tool  kind = "tool"       // programs of the build; nothing imports them
	trial kind = "test"       // test/...
	show  kind = "demo"       // the whole, run on one machine; part of cmd/lanyard in a room of its own
)

// rooms are the directories directly under which packages may stand; the longest match counts. A new room is entered here
// with the decision what it may import.
func rooms() map[string]kind {
	return map[string]kind{
		"api":    words,
		"mutate": pure, "policy": pure, "connector/nodebinding": pure, "exchange/grant": pure, "exchange/provenance": pure,
		"dockerjob/jobspec": pure,
		"webhook":           desk, "connector": desk, "exchange": desk, "dockerjob": desk, "certs": desk, "preview": desk, "doctor": desk, "demo": show,
		"delegation": notes, "delegation/internal": aid, "delegation/sqlite": aid, "delegation/postgres": aid, "delegation/delegationtest": aid,
		"internal": aid, "internal/tokenfile": leaf, "internal/gen": tool, "internal/image": tool, "internal/testsum": tool,
		"client": sdk, "cmd": door, "test": trial,
	}
}

// mayImport says which kinds of rooms a kind may import, besides itself below its own room.
func mayImport(k kind) []kind {
	switch k {
	case notes:
		return []kind{words}
	case pure:
		return []kind{pure, words, notes}
	case desk, aid:
		return []kind{pure, words, notes, leaf, aid}
	case sdk:
		return []kind{words, leaf}
	case door:
		return []kind{desk, pure, words, notes, leaf, aid, sdk, show}
	case show:
		return []kind{desk, pure, words, notes, leaf, aid, sdk, trial}
	case tool:
		return []kind{desk, pure, words, notes, leaf, aid, sdk, door}
	case trial:
		return []kind{desk, pure, words, notes, leaf, aid, sdk, trial, show}
	default:
		return nil
	}
}

// roomOf finds the room that a directory belongs to.
func roomOf(dir string) (room string, k kind, ok bool) {
	for name, candidate := range rooms() {
		if (dir == name || strings.HasPrefix(dir, name+"/")) && len(name) > len(room) {
			room, k, ok = name, candidate, true
		}
	}
	return room, k, ok
}

// pureImports says whether a pure room may import a path from outside the module: no client, logger, context or I/O.
// Package time is for moments and spans that somebody hands in; what reads the clock is found by clockReads. Package unsafe is for reading bytes as text
// without a copy (mutate/manifest). Package io is among them for io.EOF and the reader interfaces; what opens anything is os and net.
func pureImports(path string) bool {
	std := []string{
		"bytes", "cmp", "encoding/json", "errors", "fmt", "hash/maphash", "io", "iter", "maps", "math", "math/bits", "path", "reflect", "regexp", "slices", "sort",
		"strconv", "strings", "unicode", "unicode/utf8", "net/url", "encoding/base64", "crypto/sha256", "crypto/subtle", "encoding/hex",
		"encoding", "mime", "time", "unsafe",
	}
	libraries := []string{
		"github.com/go-json-experiment/json", "golang.org/x/text/unicode/norm", "golang.org/x/text/cases", "sigs.k8s.io/json",
		"k8s.io/api", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime/schema", "k8s.io/apimachinery/pkg/util/intstr",
		"k8s.io/apimachinery/pkg/util/validation", "k8s.io/apimachinery/pkg/api/resource", "github.com/distribution/reference", "k8s.io/apimachinery/pkg/runtime",
	}
	return slices.Contains(std, path) || slices.ContainsFunc(libraries, func(l string) bool { return path == l || strings.HasPrefix(path, l+"/") })
}

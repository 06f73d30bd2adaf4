package main

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// event is one line of `go test -json` (cmd/test2json documents the fields).
type event struct {
	Time       time.Time
	Action     string
	Package    string
	ImportPath string // of build-output and build-fail, in place of Package
	Test       string
	Elapsed    float64
	Output     string
}

// testKey names a test or subtest.
type testKey struct{ pkg, test string }

// skipped is a test that ended by t.Skip, with what it said.
type skipped struct {
	testKey
	why string
}

// pkgResult is what `go test` says of one package when it is done.
type pkgResult struct {
	name     string
	verdict  string // ok, FAIL or none: no test files
	closing  string // the closing line that go test prints, such as "ok  \tpath\t0.1s"
	failures string // everything that its failed tests printed
}

// tally adds up the events of one `go test -json`. Only the innermost subtests count, and a test that failed while all
// its subtests passed; a package that does not build, or dies outside a test, counts as one failure.
type tally struct {
	passed, failed int
	skipped        []skipped
	output         map[testKey][]string
	state          map[testKey]string
	since          map[testKey]time.Time // of those that run; a parallel test that waits for its turn does not
	order          map[string][]testKey
	build          map[string][]string
}

func newTally() *tally {
	return &tally{
		output: map[testKey][]string{}, state: map[testKey]string{}, since: map[testKey]time.Time{},
		order: map[string][]testKey{}, build: map[string][]string{},
	}
}

// add takes one event in and returns a result when the event ends a package.
func (t *tally) add(e event) (pkgResult, bool) {
	k := testKey{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		t.build[e.ImportPath] = append(t.build[e.ImportPath], e.Output)
	case "run":
		t.order[e.Package] = append(t.order[e.Package], k)
		t.state[k], t.since[k] = "running", e.Time
	case "pause":
		delete(t.since, k)
	case "cont":
		t.since[k] = e.Time
	case "output":
		t.output[k] = append(t.output[k], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			return t.closePackage(e), true
		}
		t.state[k] = e.Action
		delete(t.since, k)
	}
	return pkgResult{}, false
}

// running lists the tests that run, innermost only, the one that has run for longest first.
func (t *tally) running() []testKey {
	var ks []testKey
	for k := range t.since {
		if !t.hasChild(k) {
			ks = append(ks, k)
		}
	}
	slices.SortFunc(ks, func(a, b testKey) int {
		return cmp.Or(t.since[a].Compare(t.since[b]), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	return ks
}

func (t *tally) hasChild(k testKey) bool {
	for _, other := range t.order[k.pkg] {
		if strings.HasPrefix(other.test, k.test+"/") {
			return true
		}
	}
	return false
}

// closePackage counts a package's tests and forgets what they printed.
func (t *tally) closePackage(e event) pkgResult {
	res := pkgResult{name: e.Package, verdict: map[string]string{"pass": "ok", "fail": "FAIL", "skip": "none"}[e.Action]}
	before := t.failed
	for _, k := range t.order[e.Package] {
		t.count(k, e.Action == "fail")
	}
	if e.Action == "fail" {
		if t.failed == before {
			t.failed++
		}
		res.failures = t.failureText(e.Package)
	}
	res.closing = closingLine(t.output[testKey{e.Package, ""}], e)
	for _, k := range t.order[e.Package] {
		delete(t.output, k)
		delete(t.state, k)
		delete(t.since, k)
	}
	delete(t.output, testKey{e.Package, ""})
	delete(t.order, e.Package)
	return res
}

func (t *tally) count(k testKey, packageFailed bool) {
	child := t.hasChild(k)
	switch t.state[k] {
	case "pass":
		if !child {
			t.passed++
		}
	case "skip":
		if !child {
			t.skipped = append(t.skipped, skipped{k, skipReason(t.output[k])})
		}
	default: // failed, or never ended, as after a panic or os.Exit
		if packageFailed && (!child || !t.childFailed(k)) {
			t.failed++
		}
	}
}

func (t *tally) childFailed(k testKey) bool {
	for _, other := range t.order[k.pkg] {
		if strings.HasPrefix(other.test, k.test+"/") && (t.state[other] == "fail" || t.state[other] == "running") {
			return true
		}
	}
	return false
}

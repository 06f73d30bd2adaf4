package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"regexp"
	"sync"
)

// printer prints JSON, one object a line. It may be used by several goroutines.
type printer struct {
	mu  *sync.Mutex
	out io.Writer
}

func newPrinter(out io.Writer) printer { return printer{mu: &sync.Mutex{}, out: out} }

// jwt matches a token in the compact form, the middle of one and its signature included; proof one of the Docker backend.
var jwt, proof = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*(\.[A-Za-z0-9_-]*)?`), regexp.MustCompile(`nmp_obo_v1\.[A-Za-z0-9._-]+`)

// struck stands where a token was.
const struck = "(a token, struck out)"

// print prints a value. A token in it would be a fault of this program; it is struck out all the same, since logs are kept.
func (p printer) print(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		line = fmt.Appendf(nil, `{"error":%q}`, "cannot be printed: "+err.Error())
	}
	line = proof.ReplaceAll(jwt.ReplaceAll(line, []byte(struck)), []byte(struck))
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.out.Write(append(line, '\n')) // nobody is left to be told
}

// flags makes the flags of a sub-command; they complain to nobody, since parse returns what is wrong.
func flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// parse reads the arguments of a sub-command that takes flags alone.
func parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("%w: %s: %w", errUsage, f.Name(), err)
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%w: %s takes no argument %q", errUsage, f.Name(), f.Arg(0))
	}
	return nil
}

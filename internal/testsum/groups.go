package main

import (
	"errors"
	"fmt"
	"strings"
)

// group is one call of `go test`: a name for the summary, the arguments, and whether it runs beside the others: from when the
// group before it starts, with nothing waiting for its end.
type group struct {
	name   string
	args   []string
	beside bool
}

// String shows the arguments, with a count in place of a long list of packages.
func (g group) String() string {
	var flags, packages []string
	for _, a := range g.args {
		if strings.HasPrefix(a, "-") {
			flags = append(flags, a)
		} else {
			packages = append(packages, a)
		}
	}
	if len(packages) > 3 {
		packages = []string{fmt.Sprintf("(%d packages)", len(packages))}
	}
	return strings.Join(append(flags, packages...), " ")
}

// parseGroups reads "-group NAME ARG..." and "-beside NAME ARG..." as often as they occur.
func parseGroups(args []string) ([]group, error) {
	var groups []group
	for i := 0; i < len(args); i++ {
		switch {
		case opens(args[i]) && i+1 == len(args):
			return nil, fmt.Errorf("%s needs a name and then what to hand to go test", args[i])
		case args[i] == "-beside" && len(groups) == 0:
			return nil, errors.New("-beside needs a -group before it to run beside")
		case opens(args[i]):
			groups = append(groups, group{name: args[i+1], beside: args[i] == "-beside"})
			i++
		case len(groups) == 0:
			return nil, fmt.Errorf("%q stands before the first -group", args[i])
		default:
			last := &groups[len(groups)-1]
			last.args = append(last.args, args[i])
		}
	}
	if len(groups) == 0 {
		return nil, errors.New("nothing to run; say -group NAME and then what to hand to go test")
	}
	return groups, nil
}

func opens(arg string) bool { return arg == "-group" || arg == "-beside" }

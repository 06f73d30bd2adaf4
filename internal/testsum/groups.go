package main

import (
	"errors"
	"fmt"
	"strings"
)

// group is one call of `go test`: a name for the summary, and the arguments.
type group struct {
	name string
	args []string
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

// parseGroups reads "-group NAME ARG..." as often as it occurs.
func parseGroups(args []string) ([]group, error) {
	var groups []group
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-group" && i+1 == len(args):
			return nil, errors.New("-group needs a name and then what to hand to go test")
		case args[i] == "-group":
			i++
			groups = append(groups, group{name: args[i]})
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

package jobspec

import (
	"errors"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// amountPattern is an amount as people write it. An exponent of three digits is none: resource.ParseQuantity multiplies it out, which for
// "1e2147483647" takes all of a processor, and gigabytes, until the process is killed.
var amountPattern = regexp.MustCompile(`^[+-]?([0-9]{1,19}(\.[0-9]{0,19})?|\.[0-9]{1,19})([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

// ErrAmount is every text that is no amount. It does not repeat it.
var ErrAmount = errors.New(`must be an amount such as "2", "500m" or "512Mi"`)

// ParseAmount reads an amount of processor or memory, whoever wrote it.
func ParseAmount(text string) (resource.Quantity, error) {
	if !amountPattern.MatchString(text) {
		return resource.Quantity{}, ErrAmount
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, ErrAmount
	}
	return q, nil
}

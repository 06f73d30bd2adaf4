package config

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// UsernamePrefix starts the username of every service account.
const UsernamePrefix = "system:serviceaccount:"

// Account is a service account. Its two texts are "namespace/name" (Parse by ParseAccount) and the username that the API
// server authenticates it as (ParseUsername). Both parsers are exact: nothing is trimmed and upper case is refused, because
// the string is compared byte for byte with what the API server says and would otherwise silently never match.
type Account struct {
	Namespace string
	Name      string
}

// String is "namespace/name".
func (a Account) String() string { return a.Namespace + "/" + a.Name }

// Username is "system:serviceaccount:namespace:name".
func (a Account) Username() string { return UsernamePrefix + a.Namespace + ":" + a.Name }

// ParseAccount reads "namespace/name".
func ParseAccount(s string) (Account, error) {
	namespace, name, found := strings.Cut(s, "/")
	if !found {
		return Account{}, errors.New(`must be "namespace/serviceAccount"`)
	}
	return newAccount(namespace, name)
}

// ParseUsername reads "system:serviceaccount:namespace:name".
func ParseUsername(s string) (Account, error) {
	rest, found := strings.CutPrefix(s, UsernamePrefix)
	if !found {
		return Account{}, fmt.Errorf("must be a canonical username, %q and so written exactly", UsernamePrefix+"<namespace>:<name>")
	}
	namespace, name, found := strings.Cut(rest, ":")
	if !found {
		return Account{}, fmt.Errorf("must name a namespace and an account: %q", UsernamePrefix+"<namespace>:<name>")
	}
	return newAccount(namespace, name)
}

// newAccount checks both names as the API server does: a namespace is a DNS-1123 label of at most 63 characters, a service
// account's name a DNS-1123 subdomain of at most 253.
func newAccount(namespace, name string) (Account, error) {
	if len(validation.IsDNS1123Label(namespace)) > 0 {
		return Account{}, errors.New("the namespace must be a DNS-1123 label (lower case letters, digits and '-', at most 63), without spaces around it")
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return Account{}, errors.New("the service account must be a DNS-1123 subdomain (lower case letters, digits, '-' and '.', at most 253), without spaces around it")
	}
	return Account{Namespace: namespace, Name: name}, nil
}

package wire

import (
	"errors"
	"fmt"
	"strings"
)

// UsernamePrefix starts the username of every service account.
const UsernamePrefix = "system:serviceaccount:"

// Longest names of a namespace (a DNS-1123 label) and of a service account (a DNS-1123 subdomain), in bytes.
const (
	maxNamespace = 63
	maxAccount   = 253
)

// Account is a service account. Its two texts are "namespace/name" (read by ParseAccount) and the canonical username that
// the API server authenticates it as (read by ParseUsername). Both parsers are exact: nothing is trimmed and upper case is
// refused, because the string is compared byte for byte with what the API server says and would otherwise silently never
// match (seed: Authentication Configuration, crossNodeServiceAccounts). They need the standard library alone, so that the
// pure rooms and the client can use them.
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

// newAccount checks both names as the API server does.
func newAccount(namespace, name string) (Account, error) {
	if !DNSLabel(namespace) {
		return Account{}, errors.New("the namespace must be a DNS-1123 label (lower case letters, digits and '-', at most 63), without spaces around it")
	}
	if !DNSSubdomain(name) {
		return Account{}, errors.New("the service account must be a DNS-1123 subdomain (lower case letters, digits, '-' and '.', at most 253), without spaces around it")
	}
	return Account{Namespace: namespace, Name: name}, nil
}

// DNSSubdomain says whether s is a DNS-1123 subdomain as Kubernetes understands it, which is what service accounts and
// nodes are named by: at most 253 bytes of labels joined by dots, the labels themselves of any length.
func DNSSubdomain(s string) bool {
	if len(s) > maxAccount {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !dnsLabel(label) {
			return false
		}
	}
	return true
}

// DNSLabel says whether s is a DNS-1123 label, which is what namespaces are named by: at most 63 bytes.
func DNSLabel(s string) bool { return len(s) <= maxNamespace && dnsLabel(s) }

// dnsLabel says whether s is made of lower case letters, digits and inner hyphens, at least one byte.
func dnsLabel(s string) bool {
	if s == "" || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

package nodebinding

// Accounts is a set of service accounts by their canonical usernames, matched byte for byte.
type Accounts map[string]struct{}

// NewAccounts makes a set, which is not nil even when it is empty.
func NewAccounts(usernames ...string) Accounts {
	a := make(Accounts, len(usernames))
	for _, u := range usernames {
		a[u] = struct{}{}
	}
	return a
}

// Has says whether a username is in the set. The empty username never is.
func (a Accounts) Has(username string) bool {
	_, ok := a[username]
	return ok && username != ""
}

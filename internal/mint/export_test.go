package mint

import "crypto"

// Thumbprint shows how ids are made.
func Thumbprint(public crypto.PublicKey) (string, error) { return thumbprint(public) }

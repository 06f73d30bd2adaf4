// Package grant decides what a token exchange is answered with. It is the OAuth 2.0 Token Exchange (RFC 8693) of managed jobs as
// functions of values: no clock, no store, no request object.
//
//	request, why := grant.ParseRequest(rules, contentType, rawQuery, body)      // the form, and whether it may be asked at all
//	decision := grant.Decide(rules, proof, row, submission, request, now)       // the claims, or the refusal
//
// Between the two the proof is verified and the row is read. What authorizes is the verified subject token, the deterministic row
// name, the stored submitter, the audience, expiry and revocation, and nothing else (seed: Credential Propagation).
//
// The zero value of every type here grants nothing. A token never outlives its row or the token that it was exchanged for,
// and its subject is the row's submitter or there is no token.
package grant

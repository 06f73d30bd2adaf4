// Package mint signs access tokens and verifies them. A token is a JWT access token (RFC 9068): its header is exactly alg, kid and
// typ, its claims are what package grant decided. ES256 is the default; RS256 and EdDSA are for verifiers that need them.
//
// Key holds a private key and prints none of it. Ring says which key signs, which are published and when a new one is due, as a
// pure state machine over times: replicas that share a ring agree without talking. Set is a ring with its keys in memory.
//
// JOSE itself is go-jose's. What is added is what it leaves to its callers: one exact header, one type, one issuer and audience, strict claims.
package mint

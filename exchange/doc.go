// Package exchange is the HTTP front desk of the token exchange: a form comes in, JSON goes out. It verifies proofs, reads the row
// that belongs to one, asks package grant what follows, signs, and answers; it decides nothing itself.
//
//	POST /apis/auth/token                    a subject token for an access token (RFC 8693)
//	GET  /apis/auth/discovery                where the SDK starts
//	GET  /apis/auth/jwks                     the public keys
//	GET  /.well-known/oauth-authorization-server   metadata (RFC 8414)
//	any  /apis/auth/authenticate[/{path}]    the gateways' callout
//
// Desk is the handler of these, Admin that of the admins' listener, Server the listener itself. What authorizes an exchange is the
// verified subject token and its row, and nothing that a client can choose (seed: Credential Propagation).
//
// No token, header or form value reaches a log, a metric or an error from here.
package exchange

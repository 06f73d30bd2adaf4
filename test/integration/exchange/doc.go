// Package exchange tries the token exchange with a real API server's tokens, reviews and rights.
package exchange

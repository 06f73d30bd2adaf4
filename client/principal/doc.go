// Package principal is what a Go service behind the platform imports to know who calls it.
//
//	guard, err := principal.NewGuard(principal.Options{BaseURL: "https://lanyard-exchange.lanyard.svc:8443", Issuer: issuer, Audience: "nemo-platform-api"})
//	defer guard.Close()
//	http.ListenAndServeTLS(addr, cert, key, guard.Wrap(service))
//
// and in a handler
//
//	p, ok := principal.FromContext(r.Context())
//	if ok && p.OnBehalfOf != "" { ... } // a job of that person's
//
// A Guard verifies the access token of each request by the exchange's public keys, without asking the exchange, so a revocation counts
// when the token ends (5 minutes by default). Where it must count at once, put a gateway in front that asks the exchange.
//
// While the exchange does not answer, the keys at hand go on counting for ten minutes beyond their time, and a token of a key that is not
// among them gets 503 with Retry-After, not 401: it may be the next one's.
//
// Trusted headers (X-NMP-Principal-Id and the like) are taken off every request, however they are spelled, and set anew from the token,
// as a gateway would: handlers and what they forward to may read them.
package principal

package main

import "github.com/lanyard-k8s/lanyard/client/principal"

// refusals are the reasons of a service's own check of access tokens.
func refusals() []explanation {
	var out []explanation
	for _, r := range principal.Reasons() {
		out = append(out, explanation{string(r), "", principalAdvice()[r]})
	}
	return out
}

// principalAdvice says, for every reason of package client/principal, what can be done about it. The caller gets 401 and is not told.
func principalAdvice() map[principal.Reason]string {
	const forged = "Find out who asks: the exchange issues no such token."
	return map[principal.Reason]string{
		principal.NoToken:      "Send one `Authorization: Bearer` header; a gateway in front must not take it away or add another.",
		principal.Malformed:    forged,
		principal.BadHeader:    forged,
		principal.BadAlgorithm: "If `keys.algorithm` was changed, allow the new one. " + forged,
		principal.BadType:      "Send the access token, not the subject token in the file that `NMP_WORKLOAD_IDENTITY_TOKEN_FILE` names.",
		principal.Unavailable:  "The caller gets 503. The keys, or the one that the token names, cannot be fetched: look at the way to the exchange's `/apis/auth/jwks`.",
		principal.UnknownKey:   "Nothing, within five minutes of `exchange rotate-keys --now`. Else look whether the service asks another exchange than the token is from.",
		principal.BadSignature: forged,
		principal.BadClaims:    forged,
		principal.BadIssuer:    "Give the service the exchange's `issuer`, to the letter.",
		principal.BadAudience:  "Ask for a token of the service's audience (`audience` of the request; it must stand under `audiences`).",
		principal.Expired:      "Get the token before each call, as the SDK does; look at the clocks.",
		principal.NotYet:       "Look at the clocks of the exchange and of the service.",
		principal.BadSubject:   forged,
	}
}

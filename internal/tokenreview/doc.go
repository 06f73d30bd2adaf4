// Package tokenreview says whose a service account token is. It asks the API server once for each token, believes the answer
// only where every part of it fits, and remembers it until the token expires, its pod dies or a review in the background
// says otherwise. The connector and the exchange use the same.
//
// Judge is the rule, a pure function. Reviewer is Judge behind a cache, with gates that keep garbage away from the API
// server, limits, and a circuit breaker, so that an outage neither forgets who is known nor keeps strangers waiting.
//
// A token never reaches a log, an error or a metric from here, and none is kept in memory beyond the call that brought it:
// the cache knows tokens by a keyed hash, and reviews in the background use the token of a call that has just been answered.
package tokenreview

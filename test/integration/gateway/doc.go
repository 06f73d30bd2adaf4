// Package gateway tests the gateway snippets that the chart ships: a real nginx with the documented configuration, a real exchange behind
// TLS that it asks, tokens that the SDK has exchanged, and a model stand-in that writes down what reaches it. Where no nginx is installed
// those tests are skipped, and say so.
package gateway

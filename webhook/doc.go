// Package webhook is the HTTP front desk of admission: an AdmissionReview comes in, the pure rooms decide, an
// AdmissionReview goes out. It keeps no state between requests, reads nothing but the request and its path, and calls no
// API, so that any number of replicas give the same answer.
//
// Nothing here grants authority. Anybody who reaches the port can send a forged review to any path and will be told which
// patch would be written; that is all. What holds is what the API server enforces itself and what connector and exchange
// verify.
//
// What the API server makes of an answer decides its form. A review that was answered with allowed=false is a denial,
// whatever the entry's failurePolicy; an HTTP error is a failed call, and failurePolicy decides. So everything that is the
// object's fault is a denial (403 for a broken rule, 400 for an object that cannot be read), and everything that is not
// (no uid to answer to, too much load, a panic) is an HTTP error, whose body is a metav1.Status because the API server
// shows the message of one.
package webhook

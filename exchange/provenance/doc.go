// Package provenance decides who submitted an object, from live objects and the rules alone. It is pure: it asks for what it
// has not been shown (Verdict.Need), and whoever calls it reads that from the API server and asks again.
//
// What it leans on is what policies in the API server enforce: a stamp (annotation lanyard.dev/created-by) names the user
// that created the object, for ever, and what bears pod templates does not change behind its creator's back. Labels and names
// prove nothing here. An owner reference is followed only from an object whose stamp says that a trusted controller made it.
//
//	pod without a controller                  its own stamp
//	pod made by a pod creator of a job kind   the submitter of the controller, which is read live
//	object stamped by a person                that person, whatever its owner references say
//	object of a delegating controller         the submitter of the live parent, at most three levels up
//
// The zero Verdict and the zero Guards let nobody through.
package provenance

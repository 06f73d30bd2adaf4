// Package redteam attacks Lanyard on a real API server, as somebody who may edit a namespace and is no cluster admin. Each
// attack of docs/threat-model.md is a test of the same number, which also holds the document to its outcome; what the
// document does not list is a TestOwn test. A refusal is tested for the layer that refused and for its reason. An attack that
// admission cannot stop is tested for exactly that: what goes through, what does not, and which other defence answers.
//
// Besides, the policies in the API server and the webhook's rules are held against each other on one corpus, a namespace
// without labels of ours is compared byte for byte with what it was before the installation, and the webhook's process is fed
// forged reviews and floods. There are no nodes: what a kubelet or a container runtime would do is not tested here.
//
// One control plane serves the package. Tests share its namespaces and make objects with generated names; tests that change
// the installation do not call t.Parallel and put back what they took.
package redteam

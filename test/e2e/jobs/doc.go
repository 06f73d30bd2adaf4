// Package jobs has managed jobs run on real nodes, with Lanyard installed as its users install it: people submit by client
// certificates, the cluster's own controllers and one of somebody else make the pods, the kubelet projects the tokens, and the pods
// find the exchange and trust it by what was injected. It also ends pods, takes the webhook away, drains a node, puts a second
// injector beside ours, and kills one part after the other under load.
package jobs

package main

import (
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/webhook"
)

// rooms wires the front desk to the pure rooms.
func rooms() webhook.Rooms {
	return webhook.Rooms{Pod: mutate.Pod, Stamp: mutate.Stamp, Verify: mutate.Verify, Template: mutate.Template}
}

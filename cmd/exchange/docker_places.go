package main

import "github.com/lanyard-k8s/lanyard/internal/places"

// How many connections a listener of the token endpoint has open at once, how many of them from one container, which has an address of
// its own on the bridge, and how many the admins' listener has. A job could take all of the exchange's file descriptors and memory
// otherwise, and the submitters' with them.
const (
	placesInAll        = 4096
	placesPerContainer = 512
	placesForAdmins    = 256
)

// perContainer are the bounds where each container has an address of its own.
func perContainer() places.Bounds {
	return places.Bounds{Total: placesInAll, PerKey: placesPerContainer}.Reserved()
}

// shared are the bounds where users share an address, which may have all.
func shared() places.Bounds { return places.Bounds{Total: placesInAll} }

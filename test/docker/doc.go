// Package docker gives tests a Docker Engine of their own: a dockerd with its own containerd, in a network, mount and process
// namespace that ends with the test, however that ends. Its images, volumes and containers lie in memory, its bridge and its
// firewall rules in its own network, and nothing of the machine's own Docker is touched. Nothing is pulled: Probe packs a
// program of this house into an image and loads it.
//
// It needs Linux, root and the programs of Debian's docker.io. Unavailable says what is missing, for the test to skip aloud.
package docker

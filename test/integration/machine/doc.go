// Package machine tries the exchange for one machine as its users do: the programs as processes, a real Docker Engine, containers
// that exchange their proofs, and several users of the operating system at the socket.
package machine

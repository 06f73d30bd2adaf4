// Package image tests that the released programs are built for every architecture that `make image` names, and packed as what they are.
package image

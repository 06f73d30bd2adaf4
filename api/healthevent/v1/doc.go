// Package healtheventv1 is the protocol by which publishers hand health events to a connector, generated from
// healthevent.proto. It is wire-compatible with NVSentinel's platform connector: the protobuf package is "datamodels" and
// the one method is /datamodels.PlatformConnector/HealthEventOccurredV1.
//
// Protobuf's Go library keeps one registry of full names in each process. A program that links NVSentinel's own generated
// Go code and this package at the same time therefore stops at start, naming the conflict; it should use one of them, which
// costs nothing, as both speak the same bytes.
package healtheventv1

//go:generate go -C ../../.. tool -modfile=go.proto.mod buf generate api --template api/buf.gen.yaml

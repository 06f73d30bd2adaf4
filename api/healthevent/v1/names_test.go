package healtheventv1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

func TestTheMethodIsTheOneThatPublishersCall(t *testing.T) {
	t.Parallel()
	const want = "/datamodels.PlatformConnector/HealthEventOccurredV1"
	if got := healtheventv1.PlatformConnector_HealthEventOccurredV1_FullMethodName; got != want {
		t.Errorf("the method is %s, want %s", got, want)
	}
	desc := healtheventv1.PlatformConnector_ServiceDesc
	if desc.ServiceName != "datamodels.PlatformConnector" || len(desc.Methods) != 1 || len(desc.Streams) != 0 {
		t.Errorf("the service is %s with %d methods and %d streams, want datamodels.PlatformConnector with one unary method",
			desc.ServiceName, len(desc.Methods), len(desc.Streams))
	}
}

// TestNumbers writes down every number once more, apart from healthevent.proto.
func TestNumbers(t *testing.T) {
	t.Parallel()
	want := map[string]map[string]int32{
		"datamodels.HealthEvents": {"version": 1, "events": 2},
		"datamodels.HealthEvent": {
			"version": 1, "agent": 2, "componentClass": 3, "checkName": 4, "isFatal": 5, "isHealthy": 6, "message": 7,
			"recommendedAction": 8, "errorCode": 9, "entitiesImpacted": 10, "metadata": 11, "generatedTimestamp": 12,
			"nodeName": 13, "quarantineOverrides": 14, "drainOverrides": 15, "processingStrategy": 16, "id": 17,
			"customRecommendedAction": 18,
		},
		"datamodels.Entity":             {"entityType": 1, "entityValue": 2},
		"datamodels.BehaviourOverrides": {"force": 1, "skip": 2},
		"datamodels.ProcessingStrategy": {"UNSPECIFIED": 0, "EXECUTE_REMEDIATION": 1, "STORE_ONLY": 2, "STORE_AND_ANALYSE": 3},
		"datamodels.RecommendedAction": {
			"NONE": 0, "COMPONENT_RESET": 2, "CONTACT_SUPPORT": 5, "RUN_FIELDDIAG": 6, "RESTART_VM": 15, "RESTART_BM": 24,
			"REPLACE_VM": 25, "RUN_DCGMEUD": 26, "CUSTOM": 27, "UNKNOWN": 99,
		},
	}
	got := map[string]map[string]int32{}
	file := healtheventv1.File_healthevent_v1_healthevent_proto
	for i := range file.Messages().Len() {
		m := file.Messages().Get(i)
		got[string(m.FullName())] = map[string]int32{}
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			got[string(m.FullName())][string(f.Name())] = int32(f.Number())
		}
	}
	for i := range file.Enums().Len() {
		e := file.Enums().Get(i)
		got[string(e.FullName())] = map[string]int32{}
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			got[string(e.FullName())][string(v.Name())] = int32(v.Number())
		}
		if e.IsClosed() {
			t.Errorf("%s is closed; a number that is not known would be lost", e.FullName())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}

func TestNodeNameIsFieldThirteen(t *testing.T) {
	t.Parallel()
	raw, err := proto.Marshal(&healtheventv1.HealthEvent{NodeName: "n"})
	if err != nil {
		t.Fatal(err)
	}
	// 13<<3|2 = 0x6a: key, then one byte, then "n".
	if diff := cmp.Diff("\x6a\x01n", string(raw)); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
	if kind := (&healtheventv1.HealthEvent{}).ProtoReflect().Descriptor().Fields().ByNumber(13).Kind(); kind != protoreflect.StringKind {
		t.Errorf("field 13 is a %s, want a string", kind)
	}
}

package mutate

import (
	"reflect"

	"github.com/go-json-experiment/json"

	"github.com/lanyard-k8s/lanyard/mutate/manifest"
)

// kubeDefaultMode and kubeDefaultExpiration are what the API server writes where a volume says nothing; a volume that has
// been through it is compared without them.
const (
	kubeDefaultMode       = 420
	kubeDefaultExpiration = 3600
)

// maxVolume bounds the text of a volume that is compared, in bytes: ours has a few hundred, and what a longer one holds would take many
// times its text.
const maxVolume = 4096

// sameVolume says whether a volume means the same as the wanted text: equal as JSON, nulls and API server defaults left
// out. Anything else that stands in it, known or not, makes it another volume.
func sameVolume(v *manifest.Volume, want []byte) bool {
	var got, exp map[string]any
	if len(v.Raw) > maxVolume || json.Unmarshal([]byte(v.Raw), &got) != nil || json.Unmarshal(want, &exp) != nil {
		return false
	}
	return reflect.DeepEqual(settle(got), settle(exp))
}

// settle brings a volume into the form without nulls and with defaults left out or filled in.
func settle(volume map[string]any) map[string]any {
	dropNulls(volume)
	for _, source := range []string{"projected", "configMap"} {
		s, ok := volume[source].(map[string]any)
		if !ok {
			continue
		}
		if s["defaultMode"] == float64(kubeDefaultMode) {
			delete(s, "defaultMode")
		}
		sources, _ := s["sources"].([]any)
		for _, one := range sources {
			settleToken(one)
		}
	}
	return volume
}

// settleToken writes out the lifetime that a token source without one has.
func settleToken(source any) {
	s, ok := source.(map[string]any)
	if !ok {
		return
	}
	token, ok := s["serviceAccountToken"].(map[string]any)
	if !ok {
		return
	}
	if _, there := token["expirationSeconds"]; !there {
		token["expirationSeconds"] = float64(kubeDefaultExpiration)
	}
}

// dropNulls removes, at any depth, members that are null.
func dropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			if member == nil {
				delete(v, k)
				continue
			}
			dropNulls(member)
		}
	case []any:
		for _, element := range v {
			dropNulls(element)
		}
	}
}

//go:build unix

package install

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ExchangePolicies is the content of the exchange's file of policies, from its ConfigMap: what it must find installed.
func (o Objects) ExchangePolicies() (string, error) {
	for _, u := range o {
		if u.GetKind() == "ConfigMap" && u.GetName() == "lanyard-exchange" {
			policies, found, err := unstructured.NestedString(u.Object, "data", "policies.json")
			if err == nil && found {
				return policies, nil
			}
		}
	}
	return "", errors.New("the chart has rendered no ConfigMap lanyard-exchange with a key policies.json")
}

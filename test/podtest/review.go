package podtest

import "encoding/json"

// ReviewUID is the uid of every review that Review makes.
const ReviewUID = "0a5c9b1e-6f0e-4a57-9d6b-2f3c4d5e6f70"

// Review returns the body of an AdmissionReview (admission.k8s.io/v1) that asks to create the pod in namespace "team" for
// user "alice".
func Review(pod []byte) []byte {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "admission.k8s.io/v1",
		"kind":       "AdmissionReview",
		"request": map[string]any{
			"uid":             ReviewUID,
			"kind":            map[string]string{"group": "", "version": "v1", "kind": "Pod"},
			"resource":        map[string]string{"group": "", "version": "v1", "resource": "pods"},
			"requestKind":     map[string]string{"group": "", "version": "v1", "kind": "Pod"},
			"requestResource": map[string]string{"group": "", "version": "v1", "resource": "pods"},
			"namespace":       "team",
			"operation":       "CREATE",
			"userInfo": map[string]any{
				"username": "alice", "uid": "u-1", "groups": []string{"researchers", "system:authenticated"},
			},
			"object":    json.RawMessage(pod),
			"oldObject": nil,
			"dryRun":    false,
			"options":   map[string]string{"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
		},
	})
	if err != nil {
		panic(err)
	}
	return body
}

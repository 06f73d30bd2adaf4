//go:build unix

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// auditPolicy logs who asked for what, with the annotations of admission, and no object's content. What the control plane's
// own programs read is left out: there is a lot of it.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver", "system:kube-controller-manager"]
- level: None
  userGroups: ["system:serviceaccounts:kube-system"]
  verbs: [get, list, watch]
- level: None
  nonResourceURLs: ["/*"]
- level: Metadata
`

// AuditEvent is what the API server has noted about a request: the fields of an audit.k8s.io/v1 Event that tests look at.
type AuditEvent struct {
	AuditID string `json:"auditID"`
	Stage   string `json:"stage"`
	Verb    string `json:"verb"`
	User    struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code   int    `json:"code"`
		Reason string `json:"reason"`
	} `json:"responseStatus"`
	// Annotations are those of admission among others: a webhook's under "<webhook>/<key>", a policy's under
	// "<policy>/<key>", and violations under "validation.policy.admission.k8s.io/validation_failure".
	Annotations              map[string]string `json:"annotations"`
	RequestReceivedTimestamp metav1.MicroTime  `json:"requestReceivedTimestamp"`
}

// auditLog is the file that the API server notes requests in.
func (cp *ControlPlane) auditLog() string { return cp.Path("audit.log") }

// AuditEvents returns every request noted so far, in the order in which they were answered. The note of a request is made
// when it has been answered, so a client may be a moment ahead of it: AwaitAudit waits.
func (cp *ControlPlane) AuditEvents() ([]AuditEvent, error) {
	content, err := os.ReadFile(cp.auditLog())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	// The last line may be half written.
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	var events []AuditEvent
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for lines.Scan() {
		var e AuditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

// AwaitAudit waits for a request that matches, and returns the first such.
func (cp *ControlPlane) AwaitAudit(ctx context.Context, match func(AuditEvent) bool) (AuditEvent, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		events, err := cp.AuditEvents()
		if err != nil {
			return AuditEvent{}, err
		}
		for _, e := range events {
			if match(e) {
				return e, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return AuditEvent{}, fmt.Errorf("waiting for a request in the audit log: %w", context.Cause(ctx))
		}
	}
}

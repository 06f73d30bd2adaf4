package wire

// PolicyNodeStatus (P7) is the policy that holds the socket connector to the node it runs on, and the name of its binding. A
// refusal by the API server carries the name, by which the connector can tell that the policy is in force.
const PolicyNodeStatus = "lanyard-node-status"

// ExtraNodeName is the extra field in which the API server says which node the pod of a bound token runs on.
const ExtraNodeName = "authentication.kubernetes.io/node-name"

// The service accounts of the connector's two roles, in the release's namespace.
const (
	AccountSocketConnector     = "lanyard-connector"
	AccountDeploymentConnector = "lanyard-connector-deployment"
	AccountExchange            = "lanyard-exchange"
)

// Node conditions that a connector writes. The type is the name of the check; the reason says whose the condition is: one
// with another reason belongs to somebody else and is left alone.
const (
	// ConditionTypePattern is what a type must match as a whole.
	ConditionTypePattern = `^[A-Za-z][A-Za-z0-9_.-]{0,62}$`
	// ReasonHealthySuffix and ReasonUnhealthySuffix follow the type in the reason.
	ReasonHealthySuffix   = "IsHealthy"
	ReasonUnhealthySuffix = "IsNotHealthy"
)

// KubeletConditions are the condition types that the kubelet and the cloud's network controllers write, and nobody else.
func KubeletConditions() []string {
	return []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
}

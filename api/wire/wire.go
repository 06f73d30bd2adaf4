// Package wire holds the words that cross a process boundary: environment variable names, labels, annotations, volume
// names and paths. Every other room takes them from here, so that a word is written once. The names fixed by the seeds
// (NMP_*, NEMO_*, platform-connector) are theirs; everything under lanyard.dev/ is Lanyard's.
package wire

// Prefix starts every label and annotation key that belongs to Lanyard.
const Prefix = "lanyard.dev/"

// Namespace labels. Only a platform admin may set, change or remove them (policy lanyard-namespace-labels).
const (
	// LabelJobs marks a managed namespace when its value is JobsManaged: its Jobs act for their submitters.
	LabelJobs = Prefix + "jobs"
	// JobsManaged is the one value of LabelJobs that means anything.
	JobsManaged = "managed"
	// LabelPublishers marks a namespace whose pods may ask for the publisher role by label.
	LabelPublishers = Prefix + "publishers"
	// PublishersEnabled is the one value of LabelPublishers that means anything.
	PublishersEnabled = "enabled"
	// LabelNamespaceName is the immutable name label that the API server writes on every namespace.
	LabelNamespaceName = "kubernetes.io/metadata.name"
)

// Pod labels and annotations.
const (
	// LabelRole asks for a role (RolePublisher) or opts a helper pod out of identity (RoleNone). It selects, it never authorises.
	LabelRole = Prefix + "role"
	// RolePublisher asks for the publisher's token in a namespace labelled LabelPublishers.
	RolePublisher = "publisher"
	// RoleNone opts a pod of a managed namespace out of identity, never out of the rules.
	RoleNone = "none"
	// LabelInjected is written by the webhook: "publisher", "job" or "publisher.job".
	LabelInjected = Prefix + "injected"
	// AnnotationCreatedBy is the creator stamp: the username that the API server authenticated when the object was created.
	AnnotationCreatedBy = Prefix + "created-by"
	// AnnotationContainers is a comma-separated allow-list of the containers that get the token.
	AnnotationContainers = Prefix + "containers"
	// AnnotationExpiration is the wanted token lifetime, a whole number of seconds.
	AnnotationExpiration = Prefix + "token-expiration-seconds"
	// AnnotationPublisherContainers records the containers that got the publisher's token when the pod was first seen.
	AnnotationPublisherContainers = Prefix + "publisher-containers"
	// AnnotationJobContainers records the containers that got the job's subject token when the pod was first seen.
	AnnotationJobContainers = Prefix + "job-containers"
	// AnnotationMirror is set by the kubelet on the mirror of a static pod.
	AnnotationMirror = "kubernetes.io/config.mirror"
)

// The publisher's token (seed: Authentication Configuration, tokenMountPath).
const (
	// VolumePublisher is the projected volume of a publisher pod.
	VolumePublisher = "platform-connector-token"
	// EnvPublisherTokenPath names the token file for publishers.
	EnvPublisherTokenPath = "PLATFORM_CONNECTOR_TOKEN_PATH"
	// DefaultPublisherAudience is the audience of a publisher's token.
	DefaultPublisherAudience = "platform-connector.nvsentinel.nvidia.com"
	// DefaultPublisherMountPath is the directory a publisher's token is mounted at.
	DefaultPublisherMountPath = "/var/run/secrets/nvsentinel/platform-connector"
	// DefaultPublisherExpirationSeconds is the lifetime of a publisher's token.
	DefaultPublisherExpirationSeconds = 3600
	// TokenFile is the file's name below either mount path.
	TokenFile = "token"
)

// The job's subject token (seed: Credential Propagation).
const (
	// VolumeJob is the projected volume of a managed job pod.
	VolumeJob = "nmp-workload-identity"
	// VolumeCA is the optional volume with the platform's CA certificate.
	VolumeCA = "nmp-platform-ca"
	// DefaultJobMountPath is the directory the subject token is mounted at.
	DefaultJobMountPath = "/var/run/secrets/nemo-platform/workload"
	// CAMountPath is the directory the CA certificate is mounted at.
	CAMountPath = "/var/run/secrets/nemo-platform/ca"
	// CAFile is the CA certificate's file name, and its key in the ConfigMap.
	CAFile = "ca.crt"
	// DefaultCAConfigMap is the ConfigMap that holds the CA certificate in managed namespaces.
	DefaultCAConfigMap = "lanyard-ca"
	// DefaultJobAudience is the subject token's audience, equal to the exchange's client id.
	DefaultJobAudience = "nemo-platform"
	// DefaultJobExpirationSeconds is the subject token's lifetime.
	DefaultJobExpirationSeconds = 600
)

// Environment variables of a managed job.
const (
	// EnvSubjectTokenFile names the subject token's file; the SDK's trigger.
	EnvSubjectTokenFile = "NMP_WORKLOAD_IDENTITY_TOKEN_FILE"
	// EnvBaseURL is where the SDK discovers the exchange.
	EnvBaseURL = "NMP_BASE_URL"
	// EnvCAFile names the CA file that the SDK trusts.
	EnvCAFile = "NMP_CLIENT_SSL_CERT_FILE"
	// EnvPrincipal, EnvAccessToken, EnvWorkloadToken and EnvWorkloadTokenFile are the platform's and never a user's.
	EnvPrincipal         = "NMP_PRINCIPAL"
	EnvAccessToken       = "NMP_ACCESS_TOKEN"
	EnvWorkloadToken     = "NEMO_WORKLOAD_TOKEN"
	EnvWorkloadTokenFile = "NEMO_WORKLOAD_TOKEN_FILE"
)

// Token lifetimes that Kubernetes accepts for a projected volume, in seconds.
const (
	MinExpirationSeconds = 600
	MaxExpirationSeconds = 1 << 32
)

// The webhook's URL paths. A review carries no namespace labels, so the path that the API server was told to call is the
// only sign of what a namespace is entitled to.
const (
	PathMutateJob         = "/mutate/job"
	PathMutatePublisher   = "/mutate/publisher"
	PathMutateListed      = "/mutate/listed"
	PathValidateJob       = "/validate/job"
	PathValidatePublisher = "/validate/publisher"
	PathValidateListed    = "/validate/listed"
	PathValidateTemplate  = "/validate/template"
)

// Platform admins are those whom RBAC allows this verb on this resource; cluster admins are among them.
const (
	AdminGroup    = "lanyard.dev"
	AdminResource = "platform"
	AdminVerb     = "administer"
)

// Audit annotation keys; the API server puts the webhook's name in front.
const (
	AuditRole        = "role"
	AuditDecision    = "decision"
	AuditReasons     = "reasons"
	AuditAudience    = "audience"
	AuditRuleVersion = "rule-version"
)

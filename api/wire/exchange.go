package wire

// The exchange's paths. They are the platform's (seed: Credential Propagation) and its SDK's, and never change.
const (
	// PathToken is the token endpoint, POST only.
	PathToken = "/apis/auth/token"
	// PathDiscovery is where the SDK starts.
	PathDiscovery = "/apis/auth/discovery"
	// PathJWKS holds the public keys.
	PathJWKS = "/apis/auth/jwks"
	// PathAuthenticate is the gateways' callout: this path, and everything below it.
	PathAuthenticate = "/apis/auth/authenticate"
	// PathMetadata is RFC 8414's well-known path; an issuer with a path stands behind it, or in front of it.
	PathMetadata = "/.well-known/oauth-authorization-server"
	// PathAdminRecords is where admins inspect and revoke records, on a listener of its own.
	PathAdminRecords = "/admin/records"
)

// The words of a token exchange (RFC 8693) and the private type of Docker's proofs.
const (
	GrantTypeTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	TokenTypeAccess        = "urn:ietf:params:oauth:token-type:access_token"
	TokenTypeJWT           = "urn:ietf:params:oauth:token-type:jwt"
	TokenTypeDockerProof   = "urn:nvidia:nemo:params:oauth:token-type:docker-opaque-workload-proof"
	// FormType is the one type of body that the token endpoint reads.
	FormType = "application/x-www-form-urlencoded"
)

// The trusted headers: who calls, in front of services. Each stands behind a header prefix (DefaultHeaderPrefix), and a
// gateway drops them all from what a client sends.
const (
	// DefaultHeaderPrefix starts the trusted headers; platforms of another name configure another.
	DefaultHeaderPrefix = "X-NMP-"
	// HeaderPrincipal starts the headers that name somebody; none with this in front ever passes.
	HeaderPrincipal = "Principal-"
	// HeaderPrincipalID is who acts: the workload of a delegated token, else the subject.
	HeaderPrincipalID     = "Principal-Id"
	HeaderPrincipalEmail  = "Principal-Email"
	HeaderPrincipalGroups = "Principal-Groups"
	// HeaderOnBehalfOf is for whom: the submitter of a delegated token, else empty.
	HeaderOnBehalfOf       = "Principal-On-Behalf-Of"
	HeaderOnBehalfOfEmail  = "Principal-On-Behalf-Of-Email"
	HeaderOnBehalfOfGroups = "Principal-On-Behalf-Of-Groups"
	// HeaderScopes is what was granted.
	HeaderScopes = "Scopes"
	// HeaderAuthorized, HeaderInternal and HeaderOriginWorkspace are the platform's own; a client's are dropped.
	HeaderAuthorized      = "Authorized"
	HeaderInternal        = "Internal"
	HeaderOriginWorkspace = "Origin-Workspace"
)

// DefaultWorkloadAudience is what access tokens are for where nobody asks for another audience. It differs from
// DefaultJobAudience, or an access token could be exchanged again.
const DefaultWorkloadAudience = "nemo-platform-api"

// AudienceAdmin is the audience of the tokens that the admin listener takes.
const AudienceAdmin = "lanyard-admin"

// The right that the admin listener asks the API server about, in AdminGroup: "get" and "list" inspect, "patch" revokes.
const ResourceRecords = "records"

// TrustedHeaders lists the suffixes of the headers that an authenticated request carries, all of them always.
func TrustedHeaders() []string {
	return []string{
		HeaderPrincipalID, HeaderPrincipalEmail, HeaderPrincipalGroups,
		HeaderOnBehalfOf, HeaderOnBehalfOfEmail, HeaderOnBehalfOfGroups, HeaderScopes,
	}
}

// DroppedHeaders lists, besides everything under HeaderPrincipal, the suffixes of the headers that a client's request loses.
func DroppedHeaders() []string {
	return []string{HeaderAuthorized, HeaderScopes, HeaderInternal, HeaderOriginWorkspace}
}

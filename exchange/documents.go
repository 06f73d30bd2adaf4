package exchange

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
)

// rendered is a document as it is served.
type rendered struct {
	body []byte
	etag string
}

// documents are what clients discover. They are made once, from the configuration, and hold nothing of any request: an issuer taken
// from a Host header would be the client's choice.
type documents struct {
	discovery rendered
	metadata  rendered
	paths     []string // of the metadata
}

// discovery is the platform's document: where the SDK starts. What is unset is null and never left out.
type discovery struct {
	AuthEnabled bool          `json:"auth_enabled"`
	OIDC        discoveryOIDC `json:"oidc"`
}

type discoveryOIDC struct {
	Issuer                *string `json:"issuer"`
	AuthorizationEndpoint *string `json:"authorization_endpoint"`
	TokenEndpoint         *string `json:"token_endpoint"`
	DeviceEndpoint        *string `json:"device_authorization_endpoint"`
	UserinfoEndpoint      *string `json:"userinfo_endpoint"`
	JWKSURI               *string `json:"jwks_uri"`
	ClientID              *string `json:"client_id"`
	Audience              *string `json:"audience"`
	DefaultScopes         *string `json:"default_scopes"`
	WorkloadEnabled       bool    `json:"workload_token_exchange_enabled"`
	WorkloadClientID      *string `json:"workload_client_id"`
	WorkloadTokenEndpoint *string `json:"workload_token_endpoint"`
	WorkloadAudience      *string `json:"workload_audience"`
	WorkloadScope         *string `json:"workload_scope"`
}

// metadata is RFC 8414's document. Lists that would otherwise be taken for their defaults are written out: without them a client would
// believe in the authorization code grant and in client secrets.
type metadata struct {
	Issuer                string   `json:"issuer"`
	TokenEndpoint         string   `json:"token_endpoint"`
	JWKSURI               string   `json:"jwks_uri"`
	GrantTypes            []string `json:"grant_types_supported"`
	TokenEndpointAuth     []string `json:"token_endpoint_auth_methods_supported"`
	ResponseTypes         []string `json:"response_types_supported"`
	Scopes                []string `json:"scopes_supported"`
	SubjectTokenTypes     []string `json:"subject_token_types_supported"`
	RequestedTokenTypes   []string `json:"requested_token_types_supported"`
	TokenSigningAlgValues []string `json:"access_token_signing_alg_values_supported"`
}

func newDocuments(s settings.Settings) (documents, error) {
	var d documents
	var err error
	if d.discovery, err = render(newDiscovery(s)); err != nil {
		return d, err
	}
	if d.metadata, err = render(newMetadata(s)); err != nil {
		return d, err
	}
	d.paths, err = metadataPaths(s.Rules.Issuer)
	return d, err
}

func newDiscovery(s settings.Settings) discovery {
	r, l := s.Rules, s.Login
	token := s.BaseURL + wire.PathToken
	doc := discovery{AuthEnabled: true, OIDC: discoveryOIDC{
		Issuer: text(first(l.Issuer, r.Issuer)), AuthorizationEndpoint: text(l.AuthorizationEndpoint),
		TokenEndpoint: text(first(l.TokenEndpoint, token)), DeviceEndpoint: text(l.DeviceEndpoint), UserinfoEndpoint: text(l.UserinfoEndpoint),
		JWKSURI: text(s.BaseURL + wire.PathJWKS), ClientID: text(first(l.ClientID, r.ClientID)), Audience: text(l.Audience),
		DefaultScopes: text(first(l.DefaultScopes, strings.Join(r.Scopes, " "))), WorkloadEnabled: r.Enabled,
	}}
	if r.Enabled {
		doc.OIDC.WorkloadClientID, doc.OIDC.WorkloadTokenEndpoint = text(r.ClientID), text(token)
		doc.OIDC.WorkloadAudience, doc.OIDC.WorkloadScope = text(r.DefaultAudience), text(strings.Join(r.Scopes, " "))
	}
	return doc
}

func newMetadata(s settings.Settings) metadata {
	return metadata{
		Issuer: s.Rules.Issuer, TokenEndpoint: s.BaseURL + wire.PathToken, JWKSURI: s.BaseURL + wire.PathJWKS,
		GrantTypes: []string{grant.GrantType}, TokenEndpointAuth: []string{"none"}, ResponseTypes: []string{},
		Scopes: append([]string{}, s.Rules.Scopes...), SubjectTokenTypes: []string{grant.TokenTypeJWT, grant.TokenTypeDocker},
		RequestedTokenTypes: []string{grant.TokenTypeAccess}, TokenSigningAlgValues: []string{string(s.Keys.Alg)},
	}
}

// metadataPaths are where RFC 8414 puts the document (section 3: between host and path), where OpenID Connect's readers look (behind the
// path), and the bare one, for gateways that take the path away.
func metadataPaths(issuer string) ([]string, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, fmt.Errorf("read the issuer: %w", err)
	}
	path := strings.TrimSuffix(u.Path, "/")
	if path == "" {
		return []string{wire.PathMetadata}, nil
	}
	return []string{wire.PathMetadata, wire.PathMetadata + path, path + wire.PathMetadata}, nil
}

func (d documents) metadataPath(path string) bool {
	for _, p := range d.paths {
		if p == path {
			return true
		}
	}
	return false
}

// text is null for what is unset.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

func render(v any) (rendered, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return rendered{}, err
	}
	sum := sha256.Sum256(body)
	return rendered{body: body, etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`}, nil
}

// document serves one of them.
func (d *Desk) document(w http.ResponseWriter, r *http.Request, doc rendered) {
	if reading(w, r) {
		servePublic(w, r, doc, d.keys.MaxAge())
	}
}

// jwks serves the public keys.
func (d *Desk) jwks(w http.ResponseWriter, r *http.Request) {
	if !reading(w, r) {
		return
	}
	set, err := d.keys.JWKS(d.now())
	if err != nil {
		d.log.Error(err, "the public keys cannot be served")
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusServiceUnavailable, string(grant.TemporarilyUnavailable), "try again later")
		return
	}
	servePublic(w, r, rendered{body: set.Body, etag: set.ETag}, d.keys.MaxAge())
}

// servePublic serves what everybody may see and keep, and nothing to whoever has it already.
func servePublic(w http.ResponseWriter, r *http.Request, doc rendered, maxAge time.Duration) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int64(maxAge/time.Second)))
	h.Set("ETag", doc.etag)
	if matches(r.Header.Values("If-None-Match"), doc.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(doc.body) // the client may be gone
	}
}

// matches compares weakly, as RFC 9110 says of If-None-Match (section 13.1.2).
func matches(given []string, etag string) bool {
	for _, line := range given {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == etag || tag == "*" {
				return true
			}
		}
	}
	return false
}

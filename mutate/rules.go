package mutate

import (
	"net/url"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// Validate returns every fault of the rules at once, each with the key of the webhook's configuration file that it comes
// from and what to write instead. Rules with a fault must not be used: a wrong path would fence off the wrong place.
func (r Rules) Validate() field.ErrorList {
	var errs field.ErrorList
	if r.Mode != Enforce && r.Mode != Audit {
		errs = append(errs, field.NotSupported(field.NewPath("admission", "mode"), r.Mode, []Mode{Enforce, Audit}))
	}
	for i, name := range r.SkipContainers {
		if len(validation.IsDNS1123Label(name)) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("injection", "skipContainers").Index(i), name, "write a container's name"))
		}
	}
	if r.Publisher != nil {
		errs = append(errs, r.Publisher.validate(field.NewPath("publisher"))...)
	}
	if r.Job != nil {
		errs = append(errs, r.Job.validate(field.NewPath("job"))...)
	}
	return append(errs, r.together()...)
}

// together checks what the two roles must not share, since a pod may have both.
func (r Rules) together() field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("job")
	if r.Job != nil {
		errs = append(errs, apart(r.Job.MountPath, at)...)
	}
	if r.Publisher != nil {
		errs = append(errs, apart(r.Publisher.MountPath, field.NewPath("publisher"))...)
	}
	if r.Job == nil || r.Publisher == nil {
		return errs
	}
	if r.Job.Audience == r.Publisher.Audience {
		errs = append(errs, field.Invalid(at.Child("audience"), r.Job.Audience, "choose another audience than the publishers'"))
	}
	if overlapping(r.Job.MountPath, r.Publisher.MountPath) {
		errs = append(errs, field.Invalid(at.Child("tokenMountPath"), r.Job.MountPath, "choose a directory apart from the publishers'"))
	}
	if r.Publisher.CAConfigMap != "" && r.Publisher.CAConfigMap != r.Job.CAConfigMap {
		errs = append(errs, field.Invalid(field.NewPath("publisher", "caConfigMap"), r.Publisher.CAConfigMap, "name the same ConfigMap as job.caConfigMap"))
	}
	return errs
}

// accountMountPath is where the API server mounts the token that nearly every pod has for itself.
const accountMountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// apart keeps a role's directory away from what else is mounted into its pods: a mount of somebody else's at, below or
// directly above it is refused, and these would be in every one of them.
func apart(mountPath string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, taken := range []string{wire.CAMountPath, accountMountPath} {
		if overlapping(mountPath, taken) {
			errs = append(errs, field.Invalid(at.Child("tokenMountPath"), mountPath, "choose a directory apart from "+taken))
		}
	}
	return errs
}

func overlapping(a, b string) bool {
	return a != "" && b != "" && (below(a, b) || below(b, a))
}

func (p *PublisherRules) validate(at *field.Path) field.ErrorList {
	errs := p.Token.validate(at)
	for i, entry := range p.Listed {
		if _, err := wire.ParseAccount(entry); err != nil {
			errs = append(errs, field.Invalid(at.Child("listed").Index(i), entry, err.Error()))
		}
	}
	for i, entry := range p.CrossNode {
		if _, err := wire.ParseUsername(entry); err != nil {
			errs = append(errs, field.Invalid(at.Child("crossNode").Index(i), entry, err.Error()))
		}
	}
	return append(errs, configMapName(p.CAConfigMap, at.Child("caConfigMap"))...)
}

func (j *JobRules) validate(at *field.Path) field.ErrorList {
	errs := j.Token.validate(at)
	u, err := url.Parse(j.BaseURL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Contains(j.BaseURL, "$") {
		errs = append(errs, field.Invalid(at.Child("baseURL"), "", "write an https URL without user information or '$'"))
	}
	if len(j.Kinds) == 0 {
		errs = append(errs, field.Required(at.Child("kinds"), "name at least one kind, such as {group: batch, kind: Job}"))
	}
	for i, k := range j.Kinds {
		if k.Kind == "" {
			errs = append(errs, field.Required(at.Child("kinds").Index(i).Child("kind"), "write the kind"))
		}
	}
	return append(errs, configMapName(j.CAConfigMap, at.Child("caConfigMap"))...)
}

func configMapName(name string, at *field.Path) field.ErrorList {
	if name == "" || len(validation.IsDNS1123Subdomain(name)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, "write a ConfigMap's name")}
}

func (t Token) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Audience == "" {
		errs = append(errs, field.Required(at.Child("audience"), "write the token's audience"))
	}
	if t.ExpirationSeconds < wire.MinExpirationSeconds || t.ExpirationSeconds > wire.MaxExpirationSeconds {
		errs = append(errs, field.Invalid(at.Child("tokenExpirationSeconds"), t.ExpirationSeconds, "write a whole number from 600 to 4294967296"))
	}
	if t.MaxExpirationSeconds < t.ExpirationSeconds || t.MaxExpirationSeconds > wire.MaxExpirationSeconds {
		errs = append(errs, field.Invalid(at.Child("maxTokenExpirationSeconds"), t.MaxExpirationSeconds, "write a whole number from tokenExpirationSeconds to 4294967296"))
	}
	// The kubelet expands $(NAME) in the variable that holds the path, and a volume path may hold no colon.
	p := t.MountPath
	if !path.IsAbs(p) || path.Clean(p) != p || strings.Count(p, "/") < 2 || strings.ContainsAny(p, "$:\\") {
		errs = append(errs, field.Invalid(at.Child("tokenMountPath"), p, "write a clean absolute path of at least two steps, without '$', ':' or '\\'"))
	}
	return errs
}

package policy

import (
	"cmp"
	"context"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// oldestCEL is the CEL that an API server of the oldest supported release, 1.32, accepts in new policies: servers keep one
// release behind themselves, so that a rollback can still read what was stored.
var oldestCEL = version.MajorMinor(1, 31)

// compile compiles a policy as the API server's plugin does, with the CEL of the oldest supported release.
func compile(t *testing.T, p *admissionregistrationv1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	full := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(oldestCEL))
	if err != nil {
		t.Fatalf("making a compiler: %v", err)
	}
	for _, v := range p.Spec.Variables {
		r := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, full, environment.NewExpressions)
		if r.Error != nil {
			t.Fatalf("%s, variable %s: %v\n%s", p.Name, v.Name, r.Error, v.Expression)
		}
	}
	var conditions, validations, messages []plugincel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	messages = make([]plugincel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	evaluator := func(what string, accessors []plugincel.ExpressionAccessor, o plugincel.OptionalVariableDeclarations) plugincel.ConditionEvaluator {
		e := compiler.CompileCondition(accessors, o, environment.NewExpressions)
		for _, err := range e.CompilationErrors() {
			t.Errorf("%s, %s: %v", p.Name, what, err)
		}
		return e
	}
	var matcher matchconditions.Matcher
	if len(conditions) > 0 {
		matcher = matchconditions.NewMatcher(evaluator("match condition", conditions, full), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	return validating.NewValidator(
		evaluator("validation", validations, full), matcher,
		evaluator("audit annotation", nil, full),
		evaluator("message", messages, plugincel.OptionalVariableDeclarations{}),
		p.Spec.FailurePolicy, nil,
	)
}

// decision is one refusal.
type decision = validating.PolicyDecision

// question is a request as the API server puts it to a policy.
type question struct {
	user      string // "alice" if empty
	groups    []string
	extra     map[string][]string
	admin     bool
	namespace map[string]string // the namespace's labels
	in        string            // the namespace; "team" if empty
	resource  string            // with a subresource after "/"; taken from the kind if empty
	object    string            // YAML; without it, it is a DELETE of the old one
	old       string            // YAML of the old object, which makes it an UPDATE
	connect   bool              // a CONNECT, whose object are its options
}

// ask evaluates the question and returns the refusals.
func ask(t *testing.T, v validating.Validator, q question) []decision {
	t.Helper()
	versioned := q.attributes(t)
	namespace := &corev1.Namespace{}
	namespace.Name, namespace.Labels = versioned.GetNamespace(), q.namespace
	result := v.Validate(context.Background(), versioned.GetResource(), versioned, nil, namespace, celconfig.RuntimeCELCostBudget, admins(q.admin))
	return slices.DeleteFunc(result.Decisions, func(d validating.PolicyDecision) bool { return d.Action == validating.ActionAdmit })
}

// attributes puts the question into the API server's words.
func (q question) attributes(t *testing.T) *admission.VersionedAttributes {
	t.Helper()
	object, old := parse(t, q.object), parse(t, q.old)
	var newObject, oldObject runtime.Object // a nil of a type is not nil
	operation, either := admission.Create, object
	if old != nil {
		operation, oldObject = admission.Update, old
	}
	if object != nil {
		newObject = object
	} else {
		operation, either = admission.Delete, old
	}
	if q.connect {
		operation = admission.Connect
	}
	gvk := either.GroupVersionKind()
	gvr, sub := resourceOf(gvk, q.resource)
	in, name := cmp.Or(q.in, "team"), cmp.Or(q.user, "alice")
	if gvk.Kind == "Namespace" || gvk.Kind == "Node" {
		in = ""
	}
	versioned := &admission.VersionedAttributes{
		Attributes: admission.NewAttributesRecord(newObject, oldObject, gvk, in, either.GetName(), gvr, sub, operation, nil, false,
			&user.DefaultInfo{Name: name, Groups: q.groups, Extra: q.extra}),
		VersionedKind: gvk,
	}
	if newObject != nil {
		versioned.VersionedObject = admission.NewLazyObject(newObject)
	}
	if oldObject != nil {
		versioned.VersionedOldObject = admission.NewLazyObject(oldObject)
	}
	return versioned
}

// admins answers the platform admins' check with itself and refuses every other.
type admins bool

func (a admins) Authorize(_ context.Context, at authorizer.Attributes) (authorizer.Decision, string, error) {
	if a && at.GetAPIGroup() == "lanyard.dev" && at.GetResource() == "platform" && at.GetVerb() == "administer" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("parsing the object: %v", err)
	}
	return u
}

func resourceOf(gvk schema.GroupVersionKind, name string) (gvr schema.GroupVersionResource, sub string) {
	if name == "" {
		name = Kind{Kind: gvk.Kind}.resource()
	}
	for i := range name {
		if name[i] == '/' {
			name, sub = name[:i], name[i+1:]
			break
		}
	}
	return gvk.GroupVersion().WithResource(name), sub
}

// named finds one policy and compiles it.
func named(t *testing.T, s Settings, name string) validating.Validator {
	t.Helper()
	for _, p := range All(s) {
		if p.Policy.Name == name {
			return compile(t, p.Policy)
		}
	}
	t.Fatalf("there is no policy %s", name)
	return nil
}

package mutate

import (
	"slices"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// absent files what an entitled pod lacks, each with the likeliest cause and its remedy.
func (v *review) absent() {
	for i := range v.missing.containers {
		if l := &v.missing.containers[i]; len(l.tombs) > 0 {
			v.file(violation.EnvFromOpen, v.in(l.seat, "env", "open"), sayOpen(l.tombs))
		}
	}
	if !v.identity() {
		return
	}
	hint := v.hint()
	if v.missing.token {
		v.file(violation.NotInjected, v.at("spec.volumes", "not injected"), "the "+string(v.gear.role)+" token's volume is missing: "+hint)
		return
	}
	for i := range v.missing.containers {
		l := &v.missing.containers[i]
		what, field := "mount", "volumeMounts"
		if len(l.mounts) == 0 {
			what, field = "variable", "env"
		}
		if len(l.env)+len(l.mounts) > 0 {
			v.file(violation.NotInjected, v.in(l.seat, field, "not injected"),
				"the "+string(v.gear.role)+" token's "+what+" is missing: "+hint)
		}
	}
	if labelHas(v.label(wire.LabelInjected), v.gear.role) && !v.targets.stamped {
		v.file(violation.NotInjected, v.annotation(v.gear.listKey), sayListMissing(v.gear.listKey))
	}
}

// hint tells apart why a pod may lack its token. Our own label or list shows that the mutating webhook saw the pod, so
// something took parts away afterwards; without them it never did.
func (v *review) hint() string {
	switch {
	case labelHas(v.label(wire.LabelInjected), v.gear.role) || v.targets.stamped:
		return "it was added and another admission webhook removed or replaced it; exempt lanyard's volume, mounts and variables there, or order that webhook before lanyard's"
	case v.req.Entry == EntryPublisher:
		return "label " + wire.LabelRole + "=" + wire.RolePublisher + " came too late (another webhook added it) or lanyard's webhook did not answer; " +
			"set the label in the manifest and create the pod again"
	case v.req.Entry == EntryListed:
		return "the service account was set too late (another webhook changed it) or lanyard's webhook did not answer; " +
			"set serviceAccountName in the manifest and create the pod again"
	default:
		return "lanyard's mutating webhook did not see this pod (it was down, its configuration is missing, or another webhook changed the pod's labels or owner afterwards); " +
			"create the pod again, and tell the platform team if it stays"
	}
}

// settle forgets what is not wanted after all.
func (v *review) settle() {
	if !v.identity() || v.windows {
		v.forget()
		return
	}
	// A publisher whose own chart mounts the token needs no CA from here.
	if v.gear.role == Publisher && !slices.ContainsFunc(v.missing.containers, func(l lack) bool { return len(l.mounts) > 0 }) {
		v.missing.ca = false
	}
}

// forget drops the role's part. A container with envFrom then needs empty entries for all reserved names.
func (v *review) forget() {
	kept := v.missing.containers[:0]
	for _, l := range v.missing.containers {
		l.env, l.mounts, l.tombs = nil, nil, nil
		if v.req.Entry == EntryJob {
			l.tombs = open(l.seat.c, nil)
		}
		if len(l.tombs) > 0 {
			kept = append(kept, l)
		}
	}
	v.missing = missing{containers: kept}
}

package mutate

import (
	"strconv"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// Every message says what is wrong and what to do instead. Names are quoted, values never.

// maxQuoted bounds a name in a message, and maxCandidates a list of names.
const (
	maxQuoted     = 64
	maxCandidates = 12
)

// quoted writes a name so that invisible characters show.
func quoted(name string) string {
	if len(name) > maxQuoted {
		name = strings.ToValidUTF8(name[:maxQuoted], "") + "..."
	}
	return strconv.QuoteToASCII(name)
}

func sayReserved(name string, needed bool) string {
	if needed {
		return quoted(name) + " is set by the platform in this container and may not be set or emptied by a job; remove it"
	}
	return quoted(name) + " is set by the platform and may not be set by a job; remove it"
}

func sayDuplicate(name string) string {
	return quoted(name) + " stands more than once, and the last entry would win; keep none, the platform adds its own"
}

func sayPrefix(prefix, canonical string) string {
	return "prefix " + quoted(prefix) + " could complete the platform's " + canonical + "; choose another prefix"
}

func sayEndpoint(name string) string {
	return quoted(name) + " would tell the job where to send its token or whom to trust; remove it, the platform sets it"
}

func sayLookAlike(name, canonical string) string {
	return quoted(name) + " looks like the platform's " + quoted(canonical) + "; choose another name"
}

func sayPublisherPath(name string) string {
	return quoted(name) + " must name the file of the mounted token; remove it, the platform sets it"
}

func sayTokenMount(allowed bool, s seat, g *gear) string {
	volume := quoted(g.volume)
	switch {
	case allowed:
		return volume + " may be mounted only at " + g.token.MountPath +
			", read-only, without subPath or propagation; remove this mount, the platform adds its own"
	case s.list == ephemeralList:
		return "a debug container may not mount " + volume + ", which holds the pod's token; remove this mount"
	default:
		return "this container is not one that gets the " + string(g.role) + " token, and may not mount " + volume +
			"; remove this mount (annotation " + wire.AnnotationContainers + " names the containers, before the pod is created)"
	}
}

func sayCAMount() string {
	return quoted(wire.VolumeCA) + " may be mounted only at " + wire.CAMountPath +
		", read-only, without subPath or propagation; remove this mount, the platform adds its own"
}

func sayPath(ours string) string {
	return "a mount at, below or directly above " + ours + " could stand in for the platform's files; mount it elsewhere"
}

func sayVolume(name string) string {
	return quoted(name) + " is the name of the platform's volume, and this one differs from it; rename yours or remove it, the platform adds its own"
}

func sayVolumeOutsider(g *gear) string {
	volume := quoted(g.volume)
	if g.role == Job {
		return volume + " is the platform's volume, and this pod has no job identity (it is controlled by something that is not a job, or has " +
			wire.LabelRole + "=" + wire.RoleNone + "); remove the volume and its mounts"
	}
	return volume + " is the platform's volume, and this pod is not a publisher (label " + wire.LabelRole + "=" + wire.RolePublisher +
		" where it is enabled, or the publishers list); remove the volume and its mounts"
}

func sayAudience(role Role) string {
	return "this is the audience of the platform's " + string(role) + " token, which only the platform's own volume may project; remove this source"
}

func sayWindows(role Role) string {
	return "this pod is for Windows, where the platform cannot place the " + string(role) +
		" token; run it on Linux" + map[Role]string{Job: ", or give it label " + wire.LabelRole + "=" + wire.RoleNone, Publisher: ""}[role]
}

func sayRole() string {
	return "the role is not one that exists; write " + quoted(wire.RolePublisher) + " or " + quoted(wire.RoleNone) + ", or remove the label"
}

func sayInjectedLabel() string {
	return "this label is written by the platform together with the token, which this pod has not; remove it"
}

func sayExpiration() string {
	return "the lifetime must be a whole number of seconds, in digits only, such as \"3600\""
}

func sayListEmpty() string {
	return "the list names no container; name the containers that get the token, or remove the annotation"
}

func sayListsDiffer(stamp string) string {
	return "the list differs from " + stamp + ", which records the containers that got the token first; make them equal or remove " + stamp
}

func sayUnknownContainer(name string, candidates []string) string {
	more := ""
	if len(candidates) > maxCandidates {
		more = " and " + strconv.Itoa(len(candidates)-maxCandidates) + " more"
		candidates = candidates[:maxCandidates]
	}
	shown := make([]string, len(candidates))
	for i, c := range candidates {
		shown[i] = quoted(c)
	}
	return quoted(name) + " is not a container of this pod; it has " + strings.Join(shown, ", ") + more
}

func sayListMissing(key string) string {
	return "label " + wire.LabelInjected + " says that the token was added, but annotation " + key +
		", which records for which containers, is gone: another webhook removed it; let it keep lanyard.dev annotations"
}

func sayOpen(names []string) string {
	return "envFrom could set " + strings.Join(names, ", ") +
		" in this container; add an entry with an empty value for each (the platform does, unless something removed them)"
}

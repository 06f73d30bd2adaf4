package mutate

import (
	"strconv"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// mounts judges a container's mounts and block devices. The result says which of the role's mounts, the token's and the
// CA's, stand exactly as ours.
func (v *review) mounts(s seat) (has [2]bool) {
	if v.gear == nil {
		return has
	}
	for i := range s.c.Mounts {
		m := &s.c.Mounts[i]
		switch {
		case m.Name == v.gear.volume:
			has[0] = v.tokenMount(s, i, m) || has[0]
		case m.Name == wire.VolumeCA && v.gear.caMap != "":
			has[1] = v.caMount(s, i, m) || has[1]
		default:
			v.fence(s, "volumeMounts", i, ".mountPath", m.Name, m.MountPath)
		}
	}
	for i := range s.c.Devices {
		d := &s.c.Devices[i]
		v.fence(s, "volumeDevices", i, ".devicePath", d.Name, d.DevicePath)
	}
	return has
}

// tokenMount judges a mount of the token's volume: only in a container on the list, and only as we would write it.
func (v *review) tokenMount(s seat, i int, m *manifest.Mount) bool {
	want := &v.gear.ownMounts[0]
	allowed := s.list != ephemeralList && (v.standing == possible || (v.standing == entitled && s.target))
	if allowed && exact(m, want) {
		return true
	}
	v.blocked = v.blocked || s.target
	at := v.indexed(s, "volumeMounts", i, "", m.Name+"\x00"+m.MountPath)
	v.file(violation.MountConflict, at, sayTokenMount(allowed, s, v.gear))
	return false
}

// caMount judges a mount of the CA's volume. It holds no secret, so any container may have it, in our form.
func (v *review) caMount(s seat, i int, m *manifest.Mount) bool {
	if exact(m, &v.gear.ownMounts[1]) {
		return true
	}
	v.blocked = v.blocked || s.target
	at := v.indexed(s, "volumeMounts", i, "", m.Name+"\x00"+m.MountPath)
	v.file(violation.MountConflict, at, sayCAMount())
	return false
}

// fence keeps everything else away from the role's paths: element i of a list, whose path p stands in a field of it.
func (v *review) fence(s seat, list string, i int, field, name, p string) {
	if p == "" {
		return
	}
	clean := plain(p)
	real := resolved(p)
	for n := range v.gear.mounts() {
		if f := v.gear.fences[n]; f.hit(clean) || f.hit(real) {
			v.blocked = v.blocked || s.target
			v.file(violation.PathConflict, v.indexed(s, list, i, field, name+"\x00"+p), sayPath(v.gear.ownMounts[n].MountPath))
			return
		}
	}
}

// volumes judges the pod's volumes: what stands under our names, and which audiences are projected outside them.
func (v *review) volumes() {
	var haveToken, haveCA bool
	for i := range v.pod.Spec.Volumes {
		vol := &v.pod.Spec.Volumes[i]
		if v.gear != nil {
			haveToken = v.tokenVolume(i, vol) || haveToken
			haveCA = v.caVolume(i, vol) || haveCA
		}
		for _, a := range vol.Audiences {
			v.audience(i, vol, a)
		}
	}
	if v.standing != entitled || v.gear == nil {
		return
	}
	v.missing.token = !haveToken
	v.missing.ca = v.gear.caMap != "" && !haveCA
}

// tokenVolume judges a volume under the token volume's name and says whether there is one.
func (v *review) tokenVolume(i int, vol *manifest.Volume) bool {
	if vol.Name != v.gear.volume {
		return false
	}
	at := v.at("spec.volumes["+strconv.Itoa(i)+"]", "volume\x00"+vol.Name)
	switch {
	case v.standing == outsider:
		v.file(violation.VolumeConflict, at, sayVolumeOutsider(v.gear))
	case v.standing == possible && len(vol.Audiences) > 0:
		// Its lifetime may come from an annotation that the pods get later; they are compared exactly.
	case !sameVolume(vol, v.gear.tokenVolume()):
		v.blocked = true
		v.file(violation.VolumeConflict, at, sayVolume(v.gear.volume))
	}
	return true
}

// caVolume judges a volume under the CA volume's name and says whether there is one.
func (v *review) caVolume(i int, vol *manifest.Volume) bool {
	if vol.Name != wire.VolumeCA || v.gear.caMap == "" {
		return false
	}
	if !sameVolume(vol, v.gear.caVolume()) {
		v.blocked = true
		v.file(violation.VolumeConflict, v.at("spec.volumes["+strconv.Itoa(i)+"]", "volume\x00"+vol.Name), sayVolume(wire.VolumeCA))
	}
	return true
}

// audience refuses a protected audience outside the volume that may carry it.
func (v *review) audience(i int, vol *manifest.Volume, a manifest.Audience) {
	var role Role
	var allowed bool
	switch {
	case v.rules.Publisher != nil && a.Name == v.rules.Publisher.Audience:
		role, allowed = Publisher, v.mayCarry(Publisher, vol.Name, wire.VolumePublisher) ||
			v.rules.crossNode(v.req.Namespace, v.pod.Spec.ServiceAccountName)
	case v.rules.Job != nil && a.Name == v.rules.Job.Audience:
		role, allowed = Job, v.mayCarry(Job, vol.Name, wire.VolumeJob)
	default:
		return
	}
	if allowed {
		return
	}
	field := "spec.volumes[" + strconv.Itoa(i) + "].projected.sources[" + strconv.Itoa(a.Source) + "].serviceAccountToken.audience"
	v.file(violation.AudienceForbidden, v.at(field, "audience\x00"+vol.Name+"\x00"+string(role)), sayAudience(role))
}

// mayCarry says whether a volume of this name may project the role's audience in this pod. Of a role that is not this
// entry's only the name and the pod's claim can be judged; that role's own entry compares the rest.
func (v *review) mayCarry(role Role, volume, want string) bool {
	switch {
	case volume != want:
		return false
	case v.gear != nil && v.gear.role == role:
		return v.standing != outsider
	case role == Publisher:
		return v.publishes()
	default:
		return true
	}
}

// Package jobspec says what a job on the Docker backend may be, and finds everything in a request that it may not be. A
// request has five things to say: an image, its environment, its command, and how much processor and memory it takes.
// Whatever else Docker could be asked for (mounts, devices, capabilities, namespaces of the host) has no field here.
package jobspec

import "k8s.io/apimachinery/pkg/api/resource"

// Spec is a request to run one container. Its JSON form is what submitters send.
type Spec struct {
	// Workspace, Job and Task name it. All three match `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`. They are for people: what tells
	// one container's identity from another's is drawn anew for each.
	Workspace string `json:"workspace"`
	Job       string `json:"job"`
	Task      string `json:"task"`
	// Image is a reference, "name[:tag][@digest]", or an image's id. It has to be on the machine: nothing is pulled.
	Image string `json:"image"`
	// Env are variables besides those that the platform sets.
	Env []EnvVar `json:"env,omitempty"`
	// Command takes the place of the image's CMD; the ENTRYPOINT stays.
	Command []string `json:"command,omitempty"`
	// CPU is how many processors the container may use, such as "1500m"; zero is what the platform gives.
	CPU resource.Quantity `json:"cpu,omitzero"`
	// Memory is how much memory the container may use, such as "512Mi"; zero is what the platform gives.
	Memory resource.Quantity `json:"memory,omitzero"`
}

// EnvVar is one variable.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Limits are what the platform gives and what it allows at most. A zero default means no limit of its own, a zero maximum that any
// amount may be asked for.
type Limits struct {
	DefaultCPU, MaxCPU       resource.Quantity
	DefaultMemory, MaxMemory resource.Quantity
}

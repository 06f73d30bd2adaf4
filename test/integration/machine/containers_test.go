//go:build linux

package machine

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

// traces are what an exchange's jobs have left on the Engine: containers and volumes with its instance's label.
func (h *house) traces() (containers, volumes []string) {
	h.t.Helper()
	c, err := h.engine.Client()
	must(h.t, err)
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.t.Context()), 30*time.Second)
	defer cancel()
	all, err := c.ContainerList(ctx, client.ContainerListOptions{All: true})
	must(h.t, err)
	for _, x := range all.Items {
		if h.mine(x.Labels) {
			containers = append(containers, x.ID)
		}
	}
	vols, err := c.VolumeList(ctx, client.VolumeListOptions{})
	must(h.t, err)
	for _, v := range vols.Items {
		if h.mine(v.Labels) {
			volumes = append(volumes, v.Name)
		}
	}
	return containers, volumes
}

// mine goes by the instance alone, whatever the label is called.
func (h *house) mine(labels map[string]string) bool {
	for _, value := range labels {
		if value == strings.ToLower(filepath.Base(h.dir)) {
			return true
		}
	}
	return false
}

// removeContainers takes away what a test left running.
func (h *house) removeContainers() {
	c, err := h.engine.Client()
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.t.Context()), 30*time.Second)
	defer cancel()
	all, err := c.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return // the Engine is gone, and its containers with it
	}
	for _, x := range all.Items {
		if h.mine(x.Labels) {
			_, _ = c.ContainerRemove(ctx, x.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
}

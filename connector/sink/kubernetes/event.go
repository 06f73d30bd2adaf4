package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/sink/kubernetes/conditions"
)

const (
	// controller names us in Events. A publisher's own name goes into an annotation: in the field that people read as the
	// Event's source it could say "kubelet".
	controller      = "lanyard-connector"
	annotationAgent = wire.Prefix + "agent"
	// recordedMost bounds how many Events of a node are remembered.
	recordedMost = 64
)

// happening is an Event and how often it happens in this batch.
type happening struct {
	conditions.Event
	name    string
	times   int32
	indexes []int
}

// record writes Events, one call for those that are the same, and returns what became of those that were not written.
func (s *Sink) record(ctx context.Context, n *node, events []conditions.Event, verified bool) (map[int]sink.Outcome, error) {
	missed := map[int]sink.Outcome{}
	for _, h := range together(n, events) {
		o := sink.Outcome("")
		if !n.events.take(s.o.Now(), s.o.Events, verified, h.Reason) {
			o = sink.RefusedRate
		} else {
			var passes error
			o, passes = outcomeOf(s.happen(ctx, n, h))
			if passes != nil {
				return nil, passes
			}
		}
		for _, i := range h.indexes {
			missed[i] = o
		}
	}
	return missed, nil
}

// together joins equal Events. An Event's name is made of what it says, so that a repetition finds it without a right to read.
func together(n *node, events []conditions.Event) []*happening {
	var order []*happening
	of := map[string]*happening{}
	for _, e := range events {
		sum := sha256.Sum256([]byte(strings.Join([]string{string(n.uid), e.Reason, e.Source, e.Message}, "\n")))
		name := fmt.Sprintf("%s.%x", strings.TrimRight(n.name[:min(len(n.name), 200)], ".-"), sum[:8])
		h := of[name]
		if h == nil {
			h = &happening{Event: e, name: name}
			of[name] = h
			order = append(order, h)
		}
		h.times++
		h.indexes = append(h.indexes, e.Index)
		if e.At.After(h.At) {
			h.At = e.At
		}
	}
	return order
}

// happen creates the Event or raises its count.
func (s *Sink) happen(ctx context.Context, n *node, h *happening) error {
	if before := n.recorded[h.name]; before > 0 {
		err := s.raise(ctx, n, h, before)
		if !apierrors.IsNotFound(err) {
			return err
		}
		delete(n.recorded, h.name) // the API server forgets Events after an hour
	}
	_, err := s.o.Client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, s.event(n, h), metav1.CreateOptions{})
	switch {
	case err == nil:
		n.note(h.name, h.times)
		return nil
	case !apierrors.IsAlreadyExists(err):
		return err
	}
	before, err := s.countOf(ctx, h)
	if err != nil {
		return err
	}
	return s.raise(ctx, n, h, before)
}

func (s *Sink) event(n *node, h *happening) *corev1.Event {
	at := metav1.NewTime(h.At)
	e := &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: h.name, Namespace: metav1.NamespaceDefault},
		InvolvedObject:      corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.name, UID: n.uid},
		Type:                corev1.EventTypeWarning,
		Reason:              h.Reason,
		Message:             h.Message,
		FirstTimestamp:      at,
		LastTimestamp:       at,
		Count:               h.times,
		Source:              corev1.EventSource{Component: controller, Host: s.o.Reporter},
		ReportingController: controller,
		ReportingInstance:   s.o.Reporter,
	}
	if h.Source != "" {
		e.Annotations = map[string]string{annotationAgent: h.Source}
	}
	return e
}

// countOf learns an Event's count from the answer to a patch that changes only its last time.
func (s *Sink) countOf(ctx context.Context, h *happening) (int32, error) {
	e, err := s.patchEvent(ctx, h.name, map[string]any{"lastTimestamp": metav1.NewTime(h.At)})
	if err != nil {
		return 0, err
	}
	return e.Count, nil
}

func (s *Sink) raise(ctx context.Context, n *node, h *happening, before int32) error {
	e, err := s.patchEvent(ctx, h.name, map[string]any{"count": before + h.times, "lastTimestamp": metav1.NewTime(h.At)})
	if err != nil {
		return err
	}
	n.note(h.name, e.Count)
	return nil
}

func (s *Sink) patchEvent(ctx context.Context, name string, change map[string]any) (*corev1.Event, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode Event: %w", err)
	}
	return s.o.Client.CoreV1().Events(metav1.NamespaceDefault).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
}

func (n *node) note(name string, count int32) {
	if _, known := n.recorded[name]; !known && len(n.recorded) >= recordedMost {
		clear(n.recorded) // their counts are learned again
	}
	n.recorded[name] = count
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// eventFlags are the fields of an event as flags.
type eventFlags struct {
	agent, class, check, message, node, id string
	fatal, healthy                         bool
	action, customAction, strategy         string
	codes, entities                        []string
	metadata                               map[string]string
	generated, quarantine, drain           string
	setters                                map[string]func(*healtheventv1.HealthEvent) error
}

// register declares the flags, each beside what it sets.
func (e *eventFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	e.setters = map[string]func(*healtheventv1.HealthEvent) error{}
	text := func(into *string, name, usage string, set func(*healtheventv1.HealthEvent, string)) {
		flags.StringVar(into, name, "", usage)
		e.setters[name] = func(v *healtheventv1.HealthEvent) error { set(v, *into); return nil }
	}
	text(&e.agent, "agent", "the publisher's `name`", func(v *healtheventv1.HealthEvent, s string) { v.Agent = s })
	text(&e.class, "component-class", "the `class` of the component that was checked, such as GPU", func(v *healtheventv1.HealthEvent, s string) { v.ComponentClass = s })
	text(&e.check, "check", "the check's `name`, which becomes the node condition's type", func(v *healtheventv1.HealthEvent, s string) { v.CheckName = s })
	text(&e.message, "message", "a `sentence` for people", func(v *healtheventv1.HealthEvent, s string) { v.Message = s })
	text(&e.node, "node", "the `node` that the event is about (default: the caller's own)", func(v *healtheventv1.HealthEvent, s string) { v.NodeName = s })
	text(&e.id, "id", "the event's own `identity`", func(v *healtheventv1.HealthEvent, s string) { v.Id = s })
	text(&e.customAction, "custom-action", "the action's `name` when --recommended-action is CUSTOM", func(v *healtheventv1.HealthEvent, s string) { v.CustomRecommendedAction = s })
	flags.BoolVar(&e.fatal, "fatal", false, "the node should get no further work")
	e.setters["fatal"] = func(v *healtheventv1.HealthEvent) error { v.IsFatal = e.fatal; return nil }
	flags.BoolVar(&e.healthy, "healthy", false, "the fault is gone")
	e.setters["healthy"] = func(v *healtheventv1.HealthEvent) error { v.IsHealthy = e.healthy; return nil }
	e.registerTyped(cmd)
}

// registerTyped declares the flags whose values are checked.
func (e *eventFlags) registerTyped(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&e.action, "recommended-action", "", "the `action` advised: "+strings.Join(names(healtheventv1.RecommendedAction(0).Descriptor()), ", ")+", or a number")
	e.setters["recommended-action"] = func(v *healtheventv1.HealthEvent) (err error) {
		n, err := enum("recommended-action", e.action, healtheventv1.RecommendedAction(0).Descriptor())
		v.RecommendedAction = healtheventv1.RecommendedAction(n)
		return err
	}
	flags.StringVar(&e.strategy, "strategy", "", "the processing `strategy`: "+strings.Join(names(healtheventv1.ProcessingStrategy(0).Descriptor()), ", ")+", or a number")
	e.setters["strategy"] = func(v *healtheventv1.HealthEvent) (err error) {
		n, err := enum("strategy", e.strategy, healtheventv1.ProcessingStrategy(0).Descriptor())
		v.ProcessingStrategy = healtheventv1.ProcessingStrategy(n)
		return err
	}
	flags.StringArrayVar(&e.codes, "error-code", nil, "a `code` of the fault; may be repeated")
	e.setters["error-code"] = func(v *healtheventv1.HealthEvent) error { v.ErrorCode = e.codes; return nil }
	flags.StringArrayVar(&e.entities, "entity", nil, "a part that is impacted, as `TYPE=VALUE`; may be repeated")
	e.setters["entity"] = e.setEntities
	flags.StringToStringVar(&e.metadata, "metadata", nil, "whatever else is to be handed on, as `KEY=VALUE,...`")
	e.setters["metadata"] = func(v *healtheventv1.HealthEvent) error { v.Metadata = e.metadata; return nil }
	flags.StringVar(&e.generated, "generated", "", "when the event was made, as RFC 3339 `time` (default: now)")
	e.setters["generated"] = e.setGenerated
	flags.StringVar(&e.quarantine, "quarantine", "", "`override` whether the node is cordoned: force or skip")
	e.setters["quarantine"] = func(v *healtheventv1.HealthEvent) (err error) {
		v.QuarantineOverrides, err = override("quarantine", e.quarantine)
		return err
	}
	flags.StringVar(&e.drain, "drain", "", "`override` whether the node is drained: force or skip")
	e.setters["drain"] = func(v *healtheventv1.HealthEvent) (err error) {
		v.DrainOverrides, err = override("drain", e.drain)
		return err
	}
	complete(cmd, "recommended-action", names(healtheventv1.RecommendedAction(0).Descriptor())...)
	complete(cmd, "strategy", names(healtheventv1.ProcessingStrategy(0).Descriptor())...)
	complete(cmd, "quarantine", "force", "skip")
	complete(cmd, "drain", "force", "skip")
}

func (e *eventFlags) setEntities(v *healtheventv1.HealthEvent) error {
	v.EntitiesImpacted = nil
	for _, s := range e.entities {
		kind, value, ok := strings.Cut(s, "=")
		if !ok || kind == "" || value == "" {
			return fmt.Errorf("--entity %q must be TYPE=VALUE, such as GPU=GPU-6b8f", s)
		}
		v.EntitiesImpacted = append(v.EntitiesImpacted, &healtheventv1.Entity{EntityType: kind, EntityValue: value})
	}
	return nil
}

func (e *eventFlags) setGenerated(v *healtheventv1.HealthEvent) error {
	at, err := time.Parse(time.RFC3339Nano, e.generated)
	if err != nil {
		return fmt.Errorf("--generated %q must be a time such as 2006-01-02T15:04:05Z", e.generated)
	}
	v.GeneratedTimestamp = timestamppb.New(at)
	return nil
}

func override(flag, s string) (*healtheventv1.BehaviourOverrides, error) {
	if err := oneOf(flag, s, "force", "skip"); err != nil {
		return nil, err
	}
	return &healtheventv1.BehaviourOverrides{Force: s == "force", Skip: s == "skip"}, nil
}

func names(d protoreflect.EnumDescriptor) []string {
	var out []string
	for i := range d.Values().Len() {
		out = append(out, string(d.Values().Get(i).Name()))
	}
	return out
}

// enum reads a value's name or number. Enums are open: any number will do.
func enum(flag, s string, d protoreflect.EnumDescriptor) (protoreflect.EnumNumber, error) {
	if v := d.Values().ByName(protoreflect.Name(s)); v != nil {
		return v.Number(), nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("--%s %q is unknown: use %s, or a number", flag, s, strings.Join(names(d), ", "))
	}
	return protoreflect.EnumNumber(n), nil
}

// readBatch makes the batch from the file and the flags that were given.
func readBatch(f publishFlags, stdin io.Reader, given func(string) bool) (*healtheventv1.HealthEvents, error) {
	batch := &healtheventv1.HealthEvents{Version: 1}
	if f.file != "" {
		data, err := readFile(f.file, stdin)
		if err != nil {
			return nil, err
		}
		if batch, err = parseBatch(data); err != nil {
			return nil, fmt.Errorf("%s: %w", sourceName(f.file), err)
		}
	}
	set := slices.DeleteFunc(slices.Sorted(maps.Keys(f.event.setters)), func(name string) bool { return !given(name) })
	switch {
	case f.file == "" && len(set) == 0:
		return nil, errors.New("no event given: use flags such as --check, or -f FILE, or -f - for standard input")
	case f.file == "":
		batch.Events = []*healtheventv1.HealthEvent{{}}
	case len(batch.Events) == 0:
		return nil, fmt.Errorf("%s: holds no event", sourceName(f.file))
	}
	for _, e := range batch.Events {
		for _, name := range set {
			if err := f.event.setters[name](e); err != nil {
				return nil, err
			}
		}
		complement(e)
	}
	return batch, nil
}

// complement fills in what every event has.
func complement(e *healtheventv1.HealthEvent) {
	if e.Version == 0 {
		e.Version = 1
	}
	if e.GeneratedTimestamp == nil {
		e.GeneratedTimestamp = timestamppb.Now()
	}
}

// parseBatch reads a batch, one event or a list of events.
func parseBatch(data []byte) (*healtheventv1.HealthEvents, error) {
	trimmed := strings.TrimSpace(string(data))
	if strings.HasPrefix(trimmed, "[") {
		trimmed = `{"version":1,"events":` + trimmed + `}`
	}
	var shape map[string]json.RawMessage
	if err := json.Unmarshal([]byte(trimmed), &shape); err != nil {
		return nil, errors.New("must hold JSON: a batch, one event or a list of events")
	}
	if _, isBatch := shape["events"]; !isBatch {
		trimmed = `{"version":1,"events":[` + trimmed + `]}`
	}
	batch := &healtheventv1.HealthEvents{}
	if err := protojson.Unmarshal([]byte(trimmed), batch); err != nil {
		return nil, fmt.Errorf("is no batch: %s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
	}
	return batch, nil
}

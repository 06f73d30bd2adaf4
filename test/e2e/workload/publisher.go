package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client"
)

// publisherFlags say what is published, where to and how often.
type publisherFlags struct {
	options                    client.Options
	prefix, node, check, agent string
	message, class, entity     string
	fatal, healthy, storeOnly  bool
	events, count              int
	interval, patience         time.Duration
}

// batchLine is what became of a batch.
type batchLine struct {
	N       int    `json:"n"`
	ID      string `json:"id"`
	Outcome string `json:"outcome"` // acknowledged, refused, or unanswered within the patience
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Millis  int64  `json:"ms"`
}

// totalLine closes a publisher's log.
type totalLine struct {
	Total        int `json:"total"`
	Acknowledged int `json:"acknowledged"`
	Refused      int `json:"refused"`
	Unanswered   int `json:"unanswered"`
	Retries      int `json:"retries"`
}

// runPublisher publishes batches one after the other until it is told to stop or has sent count of them.
func runPublisher(ctx context.Context, args []string, p printer) error {
	f, err := parsePublisher(args)
	if err != nil {
		return err
	}
	retries := make(chan struct{}, 1<<16)
	f.options.Retrying = func(error) {
		select {
		case retries <- struct{}{}:
		default:
		}
	}
	publisher, err := client.NewPublisher(f.options)
	if err != nil {
		return err
	}
	var total totalLine
	for n := 1; f.count == 0 || n <= f.count; n++ {
		line := f.publish(ctx, publisher, n)
		if line.Outcome == "" {
			break
		}
		p.print(line)
		total.add(line.Outcome)
		if !pause(ctx, f.interval) {
			break
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = publisher.Close(closing) // nothing is queued: each batch was waited for
	total.Retries = len(retries)
	p.print(total)
	if total.Refused > 0 || total.Unanswered > 0 {
		return exit(1)
	}
	return nil
}

func parsePublisher(args []string) (publisherFlags, error) {
	var f publisherFlags
	s := flags("publisher")
	s.StringVar(&f.options.Target, "target", "unix:///var/run/nvsentinel/nvsentinel.sock", "socket or host:port")
	s.StringVar(&f.options.TokenFile, "token-file", os.Getenv(wire.EnvPublisherTokenPath), "the token to present; \"\" for none")
	s.StringVar(&f.options.CAFile, "ca-file", "", "what a deployment's certificate is checked against")
	s.StringVar(&f.options.ServerName, "server-name", "", "the name in it")
	s.Int64Var(&f.options.ServerUser, "server-user", 0, "the user that a socket's server must run as")
	s.StringVar(&f.prefix, "id", hostname(), "what the events' ids begin with")
	s.StringVar(&f.node, "node", "", "the node that the events name; empty is the caller's own")
	s.StringVar(&f.agent, "agent", "workload", "the events' agent")
	s.StringVar(&f.class, "class", "GPU", "the events' component class")
	s.StringVar(&f.check, "check", "WorkloadCheck", "the events' check")
	s.StringVar(&f.message, "message", "published by a test", "the events' message")
	s.StringVar(&f.entity, "entity", "", "a GPU that the events are about")
	s.BoolVar(&f.fatal, "fatal", false, "the events are fatal")
	s.BoolVar(&f.healthy, "healthy", false, "the events say that all is well")
	s.BoolVar(&f.storeOnly, "store-only", false, "the events are to be stored and nothing else")
	s.IntVar(&f.events, "events", 1, "events in a batch")
	s.IntVar(&f.count, "count", 0, "batches; 0 is until told to stop")
	s.DurationVar(&f.interval, "interval", time.Second, "pause between two batches")
	s.DurationVar(&f.patience, "patience", 4*time.Minute, "how long one batch is tried")
	s.DurationVar(&f.options.MostPause, "most-pause", time.Second, "longest pause between two attempts")
	if err := parse(s, args); err != nil {
		return f, err
	}
	if f.events < 1 || f.count < 0 {
		return f, fmt.Errorf("%w: publisher: --events must be 1 or more, --count 0 or more", errUsage)
	}
	return f, nil
}

// publish sends the n-th batch. No outcome means that the program was told to stop before there was an answer.
func (f publisherFlags) publish(ctx context.Context, publisher *client.Publisher, n int) batchLine {
	began, batch := time.Now(), f.batch(n)
	trying, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	err := publisher.Publish(trying, batch)
	line := batchLine{N: n, ID: batch.GetEvents()[0].GetId(), Outcome: "acknowledged", Millis: time.Since(began).Milliseconds()}
	said := status.Convert(err)
	switch {
	case err == nil:
		return line
	case ctx.Err() != nil:
		line.Outcome = ""
	case trying.Err() != nil, client.Temporary(err):
		line.Outcome = "unanswered"
	default:
		line.Outcome = "refused"
	}
	line.Code, line.Message = said.Code().String(), said.Message()
	if said.Code() == codes.Unknown && errors.Is(err, context.DeadlineExceeded) {
		line.Code = codes.DeadlineExceeded.String()
	}
	return line
}

// batch is the n-th batch: its events have ids of their own by which a test finds them again.
func (f publisherFlags) batch(n int) *healtheventv1.HealthEvents {
	batch := &healtheventv1.HealthEvents{Version: 1}
	for i := range f.events {
		e := &healtheventv1.HealthEvent{
			Version: 1, Id: fmt.Sprintf("%s-%d", f.prefix, n), Agent: f.agent, ComponentClass: f.class, CheckName: f.check,
			Message: f.message, IsFatal: f.fatal, IsHealthy: f.healthy, NodeName: f.node, GeneratedTimestamp: timestamppb.Now(),
		}
		if i > 0 {
			e.Id += fmt.Sprintf(".%d", i)
		}
		if f.entity != "" {
			e.EntitiesImpacted = []*healtheventv1.Entity{{EntityType: "GPU", EntityValue: f.entity}}
		}
		if f.storeOnly {
			e.ProcessingStrategy = healtheventv1.ProcessingStrategy_STORE_ONLY
		}
		batch.Events = append(batch.Events, e)
	}
	return batch
}

func (t *totalLine) add(outcome string) {
	t.Total++
	switch outcome {
	case "acknowledged":
		t.Acknowledged++
	case "refused":
		t.Refused++
	default:
		t.Unanswered++
	}
}

// hostname is the pod's name.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "workload"
	}
	return name
}

// pause waits, and says whether the program goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

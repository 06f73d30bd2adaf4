//go:build unix

// Package demo shows Lanyard's main job on a real API server on this machine: it starts a control plane on the loopback
// address, installs what the chart renders, runs the webhook as a process, and then does what users do. Every scene checks
// what the API server answered; a demo that ends well has seen all of it.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
)

// Options say where the demo prints, in which manner, and whether it ends by itself.
type Options struct {
	// Out gets the scenes, Progress what is being waited for.
	Out, Progress io.Writer
	// Colour says that Out is a terminal that likes it.
	Colour bool
	// Exit ends the demo after the last scene instead of leaving everything running until ctx ends.
	Exit bool
}

// values are what the chart is installed with: the defaults, and the one publisher that is listed by its account.
const values = "publishers: [gpu-fleet/gpu-monitor]\n"

// stopTimeout is what ending everything may take.
const stopTimeout = time.Minute

// Run shows every scene. An error says which scene went otherwise than it should, and what the API server answered.
func Run(ctx context.Context, options Options) (err error) {
	begin := time.Now()
	cp, err := cluster.Start(ctx, cluster.Options{Out: options.Progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopped(ctx, cp.Stop)) }()
	s := &stage{out: options.Out, colour: options.Colour, cp: cp, programs: map[string]string{}, tokens: map[string]string{}}
	if err := s.namespaces(ctx); err != nil {
		return err
	}
	port, err := cp.Port()
	if err != nil {
		return err
	}
	s.exchange.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	if s.in, err = install.Start(ctx, cp, install.Options{Out: options.Progress, Values: values + exchangeValues(s.exchange.url)}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopped(ctx, s.in.Stop)) }()
	defer func() { err = errors.Join(err, s.clear()) }()
	for _, name := range []string{"connector", "exchange", "lanyard"} {
		if s.programs[name], err = builtProgram(ctx, options.Progress, name); err != nil {
			return err
		}
	}
	if err := s.set(ctx); err != nil {
		return fmt.Errorf("setting the stage: %w", err)
	}
	for _, scene := range scenes() {
		s.title(scene.title)
		if err := scene.play(ctx, s); err != nil {
			return fmt.Errorf("scene %q: %w", scene.title, err)
		}
	}
	s.title(fmt.Sprintf("All %d scenes went as they should, %s in all", len(scenes()), time.Since(begin).Round(time.Second)))
	if options.Exit {
		return nil
	}
	return s.linger(ctx)
}

// stopped ends something, also when ctx has ended already.
func stopped(ctx context.Context, stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return stop(ctx)
}

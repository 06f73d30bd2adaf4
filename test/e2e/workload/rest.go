package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// runExit waits for a while and ends with a code of the caller's choice.
func runExit(ctx context.Context, args []string, _ printer) error {
	s := flags("exit")
	code, after := s.Int("code", 0, "the exit code"), s.Duration("after", 0, "how long to wait before")
	if err := parse(s, args); err != nil {
		return err
	}
	pause(ctx, *after)
	if *code == 0 {
		return nil
	}
	return exit(*code)
}

// runSleep waits until it is told to stop, or for a while.
func runSleep(ctx context.Context, args []string, p printer) error {
	s := flags("sleep")
	long := s.Duration("for", 0, "how long; 0 is until told to stop")
	if err := parse(s, args); err != nil {
		return err
	}
	p.print(map[string]string{"sleeping": hostname()})
	if *long > 0 {
		pause(ctx, *long)
		return nil
	}
	<-ctx.Done()
	return nil
}

// envLine is what is known of an environment variable.
type envLine struct {
	Name  string `json:"name"`
	Set   bool   `json:"set"`
	Value string `json:"value"`
}

// runEnv prints the environment variables that its arguments name: what the container really got.
func runEnv(_ context.Context, args []string, p printer) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: env needs names", errUsage)
	}
	for _, name := range args {
		value, set := os.LookupEnv(name)
		p.print(envLine{Name: name, Set: set, Value: value})
	}
	return nil
}

// until runs f until it says that it is done, every interval, as long as the program goes on; an interval of 0 is once.
func until(ctx context.Context, interval time.Duration, f func() (done bool, err error)) error {
	for {
		done, err := f()
		if done || err != nil || interval == 0 || !pause(ctx, interval) {
			return err
		}
	}
}

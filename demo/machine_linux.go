package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lanyard-k8s/lanyard/test/docker"
)

// The users of the machine in the scene, by numbers that nobody has, and their group.
const (
	machineAlice = 20001
	machineBob   = 20002
	machineGroup = 20000
)

// machine is a Docker Engine of the scene's own, and an exchange that runs jobs on it.
type machine struct {
	s      *stage
	engine *docker.Engine
	dir    string // that the scene's users may read
}

// oneMachine runs jobs of two users as containers, where an Engine can be started, and says why not elsewhere.
func oneMachine(ctx context.Context, s *stage) (err error) {
	if why := docker.Unavailable(); why != "" {
		s.say("# skipped: " + why)
		return nil
	}
	dir, err := os.MkdirTemp("", "lanyard-demo-machine-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s.say("# a Docker Engine starts, and an exchange beside it: no cluster, no token of anybody's")
	engine, err := docker.Start(ctx, docker.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Stop()) }()
	if err := engine.Probe(ctx); err != nil {
		return err
	}
	m := &machine{s: s, engine: engine, dir: dir}
	stop, err := m.start(ctx)
	if err != nil {
		return err
	}
	return errors.Join(m.play(ctx), stop())
}

// start lays out what an operator would, and starts the exchange.
func (m *machine) start(ctx context.Context) (stop func() error, err error) {
	if err := errors.Join(os.Chmod(m.dir, 0o755), copyProgram(m.s.programs["lanyard"], filepath.Join(m.dir, "lanyard"))); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`issuer: https://build-1.example
docker:
  instance: demo
  stateDirectory: %[1]s/state
  engine: %[2]s
  socket: %[1]s/run/submit.sock
  group: "%[3]d"
  submitters: {%[4]d: alice@example.com, %[5]d: bob@example.com}
`, m.dir, m.engine.Host(), machineGroup, machineAlice, machineBob)
	m.s.quote(config[strings.Index(config, "  submitters"):])
	file := filepath.Join(m.dir, "exchange.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	var log bytes.Buffer // read once the program has ended
	cmd := m.engine.Command(context.WithoutCancel(ctx), m.s.programs["exchange"], "--backend", "docker", "--config", file)
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("the exchange ended with %w: %s", err, log.String()[max(0, log.Len()-500):])
		}
		return nil
	}
	err = m.s.poll(ctx, func() (bool, error) {
		out, err := m.as(ctx, machineAlice, "jobs", "list")
		if err != nil {
			return false, fmt.Errorf("%s", out)
		}
		return true, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the exchange: %w", err), stop())
	}
	return stop, nil
}

// as is a user's command.
func (m *machine) as(ctx context.Context, user uint32, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(m.dir, "lanyard"), args...)
	cmd.Env, cmd.Dir = []string{"LANYARD_SOCKET=" + m.dir + "/run/submit.sock"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: machineGroup}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// shell shows a user's command and what came of it.
func (m *machine) shell(ctx context.Context, name string, user uint32, args ...string) (string, error) {
	m.s.say(fmt.Sprintf("%s (user %d)$ lanyard %s", name, user, strings.Join(args, " ")))
	out, err := m.as(ctx, user, args...)
	return out, err
}

// play is the scene.
func (m *machine) play(ctx context.Context) error {
	for _, who := range []struct {
		name string
		user uint32
	}{{"alice", machineAlice}, {"bob", machineBob}} {
		name, user := who.name, who.user
		out, err := m.shell(ctx, name, user, "run", "--image", docker.ProbeImage, "--job", "train", "--", "whoami")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		var claims struct {
			Subject string `json:"sub"`
			Actor   struct {
				Subject string `json:"sub"`
			} `json:"act"`
		}
		if err := json.Unmarshal([]byte(out), &claims); err != nil || claims.Subject != name+"@example.com" {
			return fmt.Errorf("%s's job got a token of %q: %s", name, claims.Subject, out)
		}
		m.s.tick("its token's sub, by the kernel's word on who submitted: " + claims.Subject)
		m.s.tick("act.sub, the container's own record: " + claims.Actor.Subject)
	}
	out, err := m.shell(ctx, "alice", machineAlice, "run", "--image", docker.ProbeImage, "--env", "NMP_PRINCIPAL=bob")
	if err == nil || !strings.Contains(out, `"NMP_PRINCIPAL" is set by the platform`) {
		return fmt.Errorf("a job that brings an identity: %s", out)
	}
	m.s.quote(out)
	if out, err = m.shell(ctx, "alice", machineAlice, "run", "--image", docker.ProbeImage, "--job", "long", "--detach", "--", "wait"); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	id := strings.TrimSpace(out)
	m.s.quote(out)
	if out, err = m.shell(ctx, "bob", machineBob, "jobs", "stop", id); err == nil || !strings.Contains(out, "no such job") {
		return fmt.Errorf("bob stops alice's job: %s", out)
	}
	m.s.quote(out)
	if out, err = m.shell(ctx, "alice", machineAlice, "jobs", "stop", id); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	m.s.tick("stopped, and with it its proof, its record and its volume")
	return nil
}

// copyProgram puts a program where other users can run it.
func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chmod(to, 0o755))
}

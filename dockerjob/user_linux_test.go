package dockerjob_test

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"

	"github.com/lanyard-k8s/lanyard/test/docker"
)

// TestAUserOfTheMachineWithTheImagesNumber: mallory is user and group 12345 of the machine, and so is the image's user. The kernel would
// let mallory into the job's /proc, where the proof is.
func TestAUserOfTheMachineWithTheImagesNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	s := spec("apart", "wait")
	s.Image = imageOf(t, r, "lanyard.test/apart:1", nil, "USER 12345:12345")
	j := r.submit(s)
	got, err := r.docker.ContainerInspect(t.Context(), r.containerOf(j), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := processOf(t, got.Container.ID)
	for _, file := range []string{path.Join("root", mount, "token"), "environ", "mem"} {
		c := exec.Command("cat", path.Join(dir, file))
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345, Groups: []uint32{12345}}}
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "Permission denied") {
			t.Errorf("mallory reads %s: %d bytes, %v", file, len(out), err)
		}
	}
	if _, err := r.Stop(t.Context(), alice, j.ID, 0); err != nil {
		t.Fatal(err)
	}
}

// TestWhomAJobRunsAs: as the image's user, in a group that nobody else has, and in the image's groups besides. Root stays root.
func TestWhomAJobRunsAs(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	accounts := map[string]string{
		"etc/passwd": "root:x:0:0::/:/bin/sh\n#app:x:1:1::/:\napp:x:12345:777::/home/app:/bin/sh\nadmin:x:0:0::/:\n",
		"etc/group":  "root:x:0:\napp:x:777:\nvideo:x:888:other,app\nother:x:999:other\n",
	}
	const apart = "2147483001"
	for name, tc := range map[string]struct {
		user     string
		accounts map[string]string
		uid, gid string
		groups   []string
	}{
		"root":                     {"root", accounts, "0", "0", []string{"0"}},
		"root by another name":     {"admin", accounts, "0", "0", []string{"0"}},
		"a name":                   {"app", accounts, "12345", apart, []string{"777", "888", apart}},
		"its number":               {"12345", accounts, "12345", apart, []string{"777", "888", apart}},
		"with a group":             {"app:video", accounts, "12345", apart, []string{"888", apart}},
		"numbers of nobody":        {"54321:54322", accounts, "54321", apart, []string{"54322", apart}},
		"a number of nobody":       {"54321", accounts, "54321", apart, []string{"0", apart}},
		"a number without a file":  {"54321", nil, "54321", apart, []string{"0", apart}},
		"numbers without any file": {"54321:54322", nil, "54321", apart, []string{"54322", apart}},
	} {
		s := spec("whom", "status", "Uid", "status", "Gid", "status", "Groups", "cat", mount+"/ca.crt")
		s.Image = imageOf(t, r, "lanyard.test/whom:"+strings.ReplaceAll(name, " ", "-"), tc.accounts, "USER "+tc.user)
		said := strings.Split(r.said(s), "\n")
		if len(said) < 4 || said[0] != strings.Repeat(tc.uid+"\t", 3)+tc.uid || said[1] != strings.Repeat(tc.gid+"\t", 3)+tc.gid {
			t.Errorf("%s: %q", name, said)
			continue
		}
		if got := strings.Fields(said[2]); strings.Join(got, " ") != strings.Join(tc.groups, " ") {
			t.Errorf("%s: groups %q, want %q", name, got, tc.groups)
		}
		if !strings.Contains(said[3], "BEGIN CERTIFICATE") {
			t.Errorf("%s: it cannot read its files: %q", name, said[3])
		}
	}
	s := spec("whom", "wait")
	s.Image = imageOf(t, r, "lanyard.test/whom:strange", accounts, "USER stranger")
	if _, err := r.Submit(t.Context(), alice, s); err == nil || !strings.Contains(err.Error(), "stranger") {
		t.Errorf("a user who is not in the image: %v", err)
	}
}

// imageOf makes an image of the probe with files and instructions of a Dockerfile.
func imageOf(t *testing.T, r *rig, name string, files map[string]string, changes ...string) string {
	t.Helper()
	from := docker.ProbeImage
	if len(files) > 0 {
		from = name + "-files"
		made, err := r.docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{Image: docker.ProbeImage})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for file, text := range files {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644, Size: int64(len(text))}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.docker.CopyToContainer(t.Context(), made.ID, client.CopyToContainerOptions{DestinationPath: "/", Content: &b}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.docker.ContainerCommit(t.Context(), made.ID, client.ContainerCommitOptions{Reference: from}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.docker.ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.engine.Vary(t.Context(), from, name, changes...); err != nil {
		t.Fatal(err)
	}
	return name
}

// processOf finds a container's process as the machine sees it; the Engine's own number is one of its own namespace.
func processOf(t *testing.T, container string) string {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), container) {
			return filepath.Dir(file)
		}
	}
	t.Fatalf("no process of container %s is to be found", container)
	return ""
}

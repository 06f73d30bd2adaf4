//go:build unix

package boot_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/boot"
)

func TestOrdersAreCarriedOutAndAnswered(t *testing.T) {
	t.Parallel()
	// The path of a socket may not be as long as that of a test's folder.
	root, err := os.MkdirTemp("", "boot")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	l, err := net.Listen("unix", filepath.Join(root, boot.Socket))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	ended := make(chan error, 1)
	go func() {
		ended <- boot.Obey(l, func(order boot.Order, daemon string) error {
			got = append(got, fmt.Sprint(order, " ", daemon))
			if daemon == "broken" {
				return errors.New("it does not\nstart")
			}
			return nil
		})
	}()
	if err := boot.Give(root, boot.Start, "kubelet"); err != nil {
		t.Error(err)
	}
	if err := boot.Give(root, boot.Stop, "broken"); err == nil || err.Error() != "it does not start" {
		t.Errorf("error %v, want what the node says, in one line", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("serving ended by %v, want %v", err, net.ErrClosed)
	}
	if diff := cmp.Diff([]string{"start kubelet", "stop broken"}, got); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
	if err := boot.Give(root, boot.Stop, "kubelet"); err == nil || !strings.Contains(err.Error(), "reaching the node") {
		t.Errorf("error %v, want that the node cannot be reached", err)
	}
}

func TestADescriptionSurvivesItsFile(t *testing.T) {
	t.Parallel()
	want := boot.Spec{
		Hostname: "node1", Root: "/somewhere",
		Mounts:  []boot.Mount{{From: "/a", To: "/b"}},
		Daemons: map[string]boot.Daemon{"kubelet": {Path: "/kubelet", Args: []string{"--one=2"}}},
	}
	path := filepath.Join(t.TempDir(), "node.json")
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := boot.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

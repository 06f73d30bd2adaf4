//go:build unix

package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster/postgres"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// severalExchanges are the values of three exchanges on one database, as docs/operations.md gives them.
const severalExchanges = `
exchange:
  replicas: 3
  store: {driver: postgres, connectionSecret: {name: exchange-database}}
`

// database runs PostgreSQL on this machine, at the address by which pods reach it, and makes the Secret with its connection string. An
// error says why there is none here.
func database(t *testing.T, h *house.House) error {
	t.Helper()
	server, err := postgres.StartOn(t.Context(), h.Cluster.ControlPlane(), net.ParseIP(h.Cluster.Gateway()))
	if errors.Is(err, postgres.ErrNotInstalled) {
		return err
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Errorf("stopping PostgreSQL: %v", err)
		}
	})
	if err := server.Exec(t.Context(), "postgres", "CREATE DATABASE exchange"); err != nil {
		t.Fatal(err)
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: house.Namespace}}
	if _, err := h.Admin.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	// The whole Secret is mounted at this place, so that the authority's certificate lies beside the connection string.
	connection := server.Remote("exchange", "/var/run/secrets/lanyard/store/ca.crt")
	_, err = h.Admin.CoreV1().Secrets(house.Namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "exchange-database"},
		Data:       map[string][]byte{"connection": []byte(connection), "ca.crt": server.Authority()},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return nil
}

// exchangesTogether has jobs of two people exchange at three replicas, takes a replica away in the middle of it, and revokes: every
// replica knows by its next request.
func exchangesTogether(t *testing.T, h *house.House, l *load) {
	t.Helper()
	victim := exchanges(t, h, nil)[0]
	if err := h.Admin.CoreV1().Pods(victim.Namespace).Delete(t.Context(), victim.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	l.more(t, 40)
	now := exchanges(t, h, &victim)
	jobActs(t, h, "with-a-new-replica")
	l.exchangesMore(t, 5)

	job := h.MustSubmit(t, h.MustClient(t, house.Alice), house.Managed, house.Job("revoked", "sleep"))
	pod := h.PodOfJob(t, job)
	pod = h.AwaitPod(t, pod.Namespace, pod.Name, corev1.PodRunning)
	token, err := h.Cluster.InNode(t.Context(), pod.Spec.NodeName, "cat", path.Join("/var/lib/kubelet/pods", string(pod.UID),
		"volumes/kubernetes.io~projected", wire.VolumeJob, wire.TokenFile))
	if err != nil || token == "" {
		t.Fatalf("reading the token of %s on its node: %v", pod.Name, err)
	}
	var desks []desk
	for _, pod := range now {
		d := deskOf(t, h, &pod)
		house.Eventually(t, pod.Name+" to give alice's job a token", func(ctx context.Context) error {
			if status, code, err := d.ask(ctx, token); err != nil || status != http.StatusOK {
				return errors.Join(err, fmt.Errorf("status %d, %s", status, code))
			}
			return nil
		})
		desks = append(desks, d)
	}
	h.Revoke(t, &now[0], string(job.UID))
	for i, d := range desks {
		if status, code, err := d.ask(t.Context(), token); err != nil || status != http.StatusBadRequest || code != "invalid_request" {
			t.Errorf("%s, asked for the first time after the revocation: status %d, %s, %v; want it refused", now[i].Name, status, code, err)
		}
	}
}

// exchanges waits until three replicas are ready, none of them a pod that has gone, and returns them.
func exchanges(t *testing.T, h *house.House, gone *corev1.Pod) (ready []corev1.Pod) {
	t.Helper()
	house.Eventually(t, "three exchanges to be ready", func(ctx context.Context) error {
		list, err := h.Admin.CoreV1().Pods(house.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=exchange"})
		if err != nil {
			return err
		}
		ready = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
			return !house.IsReady(&p) || p.DeletionTimestamp != nil || gone != nil && p.UID == gone.UID
		})
		if len(ready) != 3 {
			return fmt.Errorf("%d are", len(ready))
		}
		return nil
	})
	return ready
}

// desk is one replica's token endpoint, whichever the Service would have chosen.
type desk struct {
	client *http.Client
}

// tokenURL is where the exchange's own name is asked.
const tokenURL = "https://lanyard-exchange." + house.Namespace + ".svc:8443" + wire.PathToken

// deskOf reaches a replica through a port-forward. Its certificate is checked as jobs check it.
func deskOf(t *testing.T, h *house.House, pod *corev1.Pod) desk {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca(t, h))) {
		t.Fatal("there is no CA certificate")
	}
	address := fmt.Sprintf("127.0.0.1:%d", h.Forward(t, pod, 8443))
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return desk{client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
}

// ask exchanges a subject token, and returns the answer's status and OAuth's code for a refusal.
func (d desk) ask(ctx context.Context, token string) (status int, code string, err error) {
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "client_id": {wire.DefaultJobAudience},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"}, "subject_token": {strings.TrimSpace(token)},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, tokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := d.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", err
	}
	var oauth struct {
		Error string `json:"error"`
	}
	return resp.StatusCode, oauth.Error, json.Unmarshal(body, &oauth)
}

//go:build unix

package demo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// exchange is the exchange's process, with the chart's configuration and the rights of the chart's account.
type exchange struct {
	url, admin string // where clients and admins are answered
	ca         string // the file with the CA certificate
	client     *http.Client
	metrics    string
}

// exchangeValues have the chart install the exchange at an address that this machine can reach.
func exchangeValues(url string) string {
	return "jobs: {namespaces: [team-a], baseURL: " + url + "}\n"
}

// startExchange lays out what the container would find, makes the database, and runs the program until it is ready.
func (s *stage) startExchange(ctx context.Context) error {
	root := s.cp.Path("exchange")
	config, err := s.exchangeFiles(root)
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, s.programs["exchange"], "migrate", "--config="+config).CombinedOutput(); err != nil {
		return fmt.Errorf("making the exchange's database: %w: %s", err, out)
	}
	token, err := s.kubeletToken(ctx, nodeOne, s.in.Namespace(), "lanyard-exchange", "lanyard-exchange-0", "")
	if err != nil {
		return err
	}
	kubeconfig, err := s.cp.KubeconfigForTokenFile("lanyard-exchange", token)
	if err != nil {
		return err
	}
	metrics, err := s.cp.Port()
	if err != nil {
		return err
	}
	admin, err := s.cp.Port()
	if err != nil {
		return err
	}
	s.exchange.admin, s.exchange.metrics = fmt.Sprintf("http://127.0.0.1:%d", admin), fmt.Sprintf("http://127.0.0.1:%d", metrics)
	p, err := s.cp.StartProcess("exchange", "/usr/bin/env", "POD_NAMESPACE="+s.in.Namespace(), "POD_NAME=lanyard-exchange-0", s.programs["exchange"],
		"--config="+config, "--listen="+strings.TrimPrefix(s.exchange.url, "https://"), "--tls-cert-dir="+filepath.Join(root, "etc/tls"), "--drain-delay=0s",
		fmt.Sprintf("--admin-listen=127.0.0.1:%d", admin), fmt.Sprintf("--metrics-listen=127.0.0.1:%d", metrics), "--kubeconfig="+kubeconfig)
	if err != nil {
		return err
	}
	if err := s.poll(ctx, func() (bool, error) {
		status, _, err := s.get(ctx, s.exchange.metrics+"/readyz", nil)
		return status == http.StatusOK, err
	}); err != nil {
		return fmt.Errorf("waiting for the exchange: %w; its log ends with\n%s", err, p.Tail(15))
	}
	return nil
}

// exchangeFiles writes the chart's files with paths below root, and a certificate, and returns the configuration's path.
func (s *stage) exchangeFiles(root string) (string, error) {
	inside := strings.NewReplacer("/etc/lanyard/", root+"/etc/", "/var/lib/lanyard/", root+"/var/")
	for _, dir := range []string{"etc/config", "etc/tls", "var/exchange"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			return "", fmt.Errorf("making the exchange's folders: %w", err)
		}
	}
	for _, key := range []string{"exchange.yaml", "policies.json"} {
		text, err := s.configMap("lanyard-exchange", key)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(root, "etc/config", key), []byte(inside.Replace(text)), 0o600); err != nil {
			return "", fmt.Errorf("writing the exchange's files: %w", err)
		}
	}
	authority, err := certs.NewAuthority("lanyard-demo", time.Now(), 24*time.Hour)
	if err != nil {
		return "", err
	}
	pair, err := authority.Issue(time.Now(), 24*time.Hour, "127.0.0.1")
	if err != nil {
		return "", err
	}
	s.exchange.ca = filepath.Join(root, "etc/tls/ca.crt")
	if err := errors.Join(pair.Write(filepath.Join(root, "etc/tls")), os.WriteFile(s.exchange.ca, authority.CA(), 0o600)); err != nil {
		return "", fmt.Errorf("writing the exchange's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.CA())
	s.exchange.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}, Timeout: 10 * time.Second}
	return filepath.Join(root, "etc/config/exchange.yaml"), nil
}

// get asks a page and returns the status and the headers of the answer.
func (s *stage) get(ctx context.Context, url string, headers map[string]string) (int, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("asking the exchange: %w", err)
	}
	return s.do(request, headers)
}

func (s *stage) do(request *http.Request, headers map[string]string) (int, http.Header, error) {
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := s.exchange.client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("asking the exchange: %w", err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return 0, nil, fmt.Errorf("asking the exchange: %w", err)
	}
	return answer.StatusCode, answer.Header, nil
}

// bind puts a pod that no scheduler will ever see onto node-1.
func (s *stage) bind(ctx context.Context, namespace, pod string) error {
	binding := fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q,"namespace":%q},"target":{"apiVersion":"v1","kind":"Node","name":%q}}`, pod, namespace, nodeOne)
	_, err := s.kubectl(ctx, cluster.Admin, []byte(binding), "create", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+"/binding", "-f", "-")
	return err
}

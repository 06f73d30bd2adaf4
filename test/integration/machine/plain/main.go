// Program plain is a job that knows nothing of this project: it discovers and exchanges by net/http and the standard library, from
// what its environment says, and prints the access token's claims. Its arguments are done one after the other:
//
//	exchange TYPE  exchanges the proof under a subject token type: "docker", "jwt" or the type itself
//	out WORDS      WORDS on standard output
//	err WORDS      WORDS on standard error
//	until ADDR     waits until somebody listens at the address
//	exit CODE      ends
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	args := os.Args[1:]
	for ; len(args) > 1; args = args[2:] {
		if err := do(args[0], args[1]); err != nil {
			fmt.Println("error:", err)
			os.Exit(3)
		}
	}
}

func do(verb, arg string) error {
	switch verb {
	case "exchange":
		return exchange(arg)
	case "out":
		fmt.Println(arg)
	case "err":
		fmt.Fprintln(os.Stderr, arg)
	case "until":
		until(arg)
	case "exit":
		code, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		os.Exit(code)
	default:
		return fmt.Errorf("cannot %s", verb)
	}
	return nil
}

// until polls: the address is the test's, on the bridge.
func until(address string) {
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// exchange asks for a token, again and again while the answer is to come again.
func exchange(kind string) error {
	switch kind {
	case "docker":
		kind = "urn:nvidia:nemo:params:oauth:token-type:docker-opaque-workload-proof"
	case "jwt":
		kind = "urn:ietf:params:oauth:token-type:jwt"
	}
	ca, err := os.ReadFile(os.Getenv("NMP_CLIENT_SSL_CERT_FILE"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return fmt.Errorf("the CA file holds no certificate")
	}
	c := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	var found struct {
		OIDC struct {
			ClientID string `json:"workload_client_id"`
			Endpoint string `json:"workload_token_endpoint"`
		} `json:"oidc"`
	}
	if _, err := answer(c.Get(os.Getenv("NMP_BASE_URL") + "/apis/auth/discovery"))(&found); err != nil {
		return err
	}
	proof, err := os.ReadFile(os.Getenv("NMP_WORKLOAD_IDENTITY_TOKEN_FILE"))
	if err != nil {
		return err
	}
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "client_id": {found.OIDC.ClientID},
		"subject_token_type": {kind}, "subject_token": {strings.TrimSpace(string(proof))},
	}
	for range 60 {
		var got struct {
			Token string `json:"access_token"`
			Error string `json:"error"`
		}
		status, err := answer(c.PostForm(found.OIDC.Endpoint, form))(&got)
		switch {
		case err != nil:
			return err
		case status == http.StatusOK:
			return claims(got.Token)
		case status != http.StatusServiceUnavailable:
			fmt.Println(status, got.Error)
			return nil
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("told to come again for a minute")
}

func claims(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return fmt.Errorf("the access token has %d parts", len(parts))
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	fmt.Println(string(text))
	return err
}

// answer reads a JSON answer.
func answer(resp *http.Response, err error) func(any) (int, error) {
	return func(into any) (int, error) {
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, json.Unmarshal(raw, into)
	}
}

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// byHTTP exchanges as a job does that has never heard of our SDK: with what the environment, the discovery document and RFC 8693
// say. So it repeats words of package wire on purpose; a test that took them from there would not see them change.
func (f jobFlags) byHTTP(ctx context.Context) (exchanged, error) {
	web, err := webClient(f.caFile)
	if err != nil {
		return exchanged{}, err
	}
	for {
		token, again, err := f.attempt(ctx, web)
		if err == nil || !again || !pause(ctx, 500*time.Millisecond) {
			return exchanged{token: token}, err
		}
	}
}

// attempt asks once, and says whether asking again may help: the platform is not there yet, or has not judged the pod yet.
func (f jobFlags) attempt(ctx context.Context, web *http.Client) (token string, again bool, err error) {
	var found struct {
		OIDC struct {
			ClientID      string `json:"client_id"`
			WorkloadID    string `json:"workload_client_id"`
			TokenEndpoint string `json:"workload_token_endpoint"`
			Audience      string `json:"workload_audience"`
			Scope         string `json:"workload_scope"`
		} `json:"oidc"`
	}
	discovery, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(f.baseURL, "/")+"/apis/auth/discovery", nil)
	if err != nil {
		return "", false, errors.New("NMP_BASE_URL is no URL")
	}
	if again, err := askJSON(web, discovery, &found); err != nil {
		return "", again, fmt.Errorf("discovery: %w", err)
	}
	subject, err := readToken(f.tokenFile)
	if err != nil {
		return "", false, err
	}
	form := url.Values{
		"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"client_id":            {firstOf(found.OIDC.WorkloadID, found.OIDC.ClientID)},
		"subject_token":        {subject},
		"subject_token_type":   {"urn:ietf:params:oauth:token-type:jwt"},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"audience":             {firstOf(f.audience, found.OIDC.Audience)},
		"scope":                {firstOf(f.scope, found.OIDC.Scope)},
	}
	exchange, err := http.NewRequestWithContext(ctx, http.MethodPost, found.OIDC.TokenEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", false, errors.New("the discovery document names no token endpoint")
	}
	exchange.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
	}
	if again, err := askJSON(web, exchange, &answer); err != nil {
		return "", again, fmt.Errorf("exchange: %w", err)
	}
	if answer.AccessToken == "" || !strings.EqualFold(answer.TokenType, "Bearer") {
		return "", false, errors.New("exchange: the answer has no bearer token")
	}
	return answer.AccessToken, false, nil
}

// askJSON sends a request and reads the JSON that comes back. An answer other than 200 is an error with OAuth's code in it; one of
// 500 and above, and none at all, may be followed by a better one.
func askJSON(web *http.Client, req *http.Request, into any) (again bool, err error) {
	resp, err := web.Do(req)
	if err != nil {
		return true, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return true, err
	}
	if resp.StatusCode != http.StatusOK {
		var oauth struct {
			Code        string `json:"error"`
			Description string `json:"error_description"`
		}
		_ = json.Unmarshal(body, &oauth) // an answer that is not OAuth's has no code
		return resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests,
			fmt.Errorf("status %d: %s: %s", resp.StatusCode, oauth.Code, oauth.Description)
	}
	if json.Unmarshal(body, into) != nil {
		return false, errors.New("the answer is no JSON")
	}
	return false, nil
}

// webClient trusts the certificates in a file, or the system's, and follows no redirect.
func webClient(caFile string) (*http.Client, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	if caFile != "" {
		data, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("CA certificate: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, errors.New("CA certificate: the file holds none")
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &http.Client{
		Transport: transport, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

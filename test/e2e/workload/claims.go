package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// claimsLine is what a projected token says of itself.
type claimsLine struct {
	File    string    `json:"file"`
	Issuer  string    `json:"iss"`
	Subject string    `json:"sub"`
	ID      string    `json:"jti"`
	Issued  int64     `json:"iat"`
	Expires int64     `json:"exp"`
	For     audiences `json:"aud"`
	Bound   struct {
		Namespace string `json:"namespace"`
		Node      named  `json:"node"`
		Pod       named  `json:"pod"`
		Account   named  `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

type named struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// audiences are one or several, as JWT has it.
type audiences []string

// UnmarshalJSON reads a string or a list of strings.
func (a *audiences) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// runClaims prints the claims of a token file, and again whenever the file holds another token.
func runClaims(ctx context.Context, args []string, p printer) error {
	s := flags("claims")
	file := s.String("file", firstOf(os.Getenv(wire.EnvSubjectTokenFile), os.Getenv(wire.EnvPublisherTokenPath)), "the token file")
	follow := s.Duration("follow", 0, "how often to look whether it was replaced; 0 is once")
	if err := parse(s, args); err != nil {
		return err
	}
	last := ""
	return until(ctx, *follow, func() (bool, error) {
		line, err := readClaims(*file)
		if err != nil {
			return false, err
		}
		if line.ID != last {
			p.print(line)
		}
		last = line.ID
		return false, nil
	})
}

// readClaims reads the claims of a token in a file. They are not verified: whoever asks has the file.
func readClaims(file string) (claimsLine, error) {
	line := claimsLine{File: file}
	token, err := readToken(file)
	if err != nil {
		return line, err
	}
	return line, unmarshalClaims(token, &line)
}

// readToken reads a token from its file.
func readToken(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// unmarshalClaims reads a token's claims into a value. Its errors hold nothing of the token.
func unmarshalClaims(token string, into any) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("reading the token: it has not three parts")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, into) != nil {
		return errors.New("reading the token: its middle part holds no claims")
	}
	return nil
}

// firstOf is the first text that is not empty.
func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// remaining is how long a moment in Unix seconds is away.
func remaining(unix int64) time.Duration { return time.Until(time.Unix(unix, 0)).Round(time.Second) }

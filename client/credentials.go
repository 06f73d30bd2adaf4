package client

import (
	"bytes"
	"context"
	"errors"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// tokenAtMost is the longest token, in bytes; the connector takes no longer one.
const tokenAtMost = 8 << 10

// PublisherCredentials presents the token in a file. The file is read for every call, which costs some microseconds, since
// the kubelet replaces it long before the token in it ends. A file that cannot be read, or holds no token, fails the call as
// Unavailable and so can be tried again: in a pod that has just started it may not be there yet.
//
// The connection must be secured: by TLS, or by SocketCredentials (gRPC's credentials/local do too) on a Unix socket. In clear
// text over TCP no call is made. The file's content appears in no error and in nothing that prints these credentials.
func PublisherCredentials(path string) credentials.PerRPCCredentials {
	return publisherCredentials{path}
}

type publisherCredentials struct{ path string }

// GetRequestMetadata reads the file.
func (c publisherCredentials) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if info, ok := credentials.RequestInfoFromContext(ctx); ok {
		if err := credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity); err != nil {
			return nil, status.Error(codes.Unauthenticated, "the token is sent only over TLS or a Unix socket")
		}
	}
	token, err := readToken(c.path)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity keeps gRPC from using these credentials on a connection in clear text.
func (publisherCredentials) RequireTransportSecurity() bool { return true }

// readToken reads a token and says what is wrong with a file that holds none, without showing what it holds.
func readToken(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return "", errors.New("token file " + path + ": " + err.Error())
	}
	token := bytes.TrimRight(raw, "\r\n")
	switch {
	case len(token) == 0:
		return "", errors.New("token file " + path + ": is empty")
	case len(token) > tokenAtMost:
		return "", errors.New("token file " + path + ": is longer than any token")
	}
	for _, b := range token {
		if b <= ' ' || b > '~' {
			return "", errors.New("token file " + path + ": holds a space, a line break or a byte that is not ASCII within the token")
		}
	}
	return string(token), nil
}

package client

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/lanyard-k8s/lanyard/internal/tokenfile"
)

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
	token, err := tokenfile.Read(c.path)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity keeps gRPC from using these credentials on a connection in clear text.
func (publisherCredentials) RequireTransportSecurity() bool { return true }

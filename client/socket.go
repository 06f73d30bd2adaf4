package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"google.golang.org/grpc/credentials"
)

// AnyUser accepts whatever user a socket's server runs as.
const AnyUser = -1

// SocketCredentials are transport credentials for a connector's Unix socket. They check, before anything is sent, that the
// server runs as a user: 0 for the connector that the chart installs, or AnyUser. Where a user namespace maps
// users, give the one that the publisher sees. They count as secure, so that PublisherCredentials work on top of them.
func SocketCredentials(user int64) credentials.TransportCredentials { return socketCredentials{user} }

type socketCredentials struct{ user int64 }

// socketInfo says that nobody between can read or change what is sent.
type socketInfo struct{ credentials.CommonAuthInfo }

// AuthType names the kind of authentication to gRPC.
func (socketInfo) AuthType() string { return "unix" }

// ClientHandshake looks at who listens.
func (c socketCredentials) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.New("these credentials are for Unix sockets")
	}
	if c.user != AnyUser {
		user, err := peerUser(u)
		if err != nil {
			return nil, nil, fmt.Errorf("look at the socket's server: %w", err)
		}
		if user != c.user {
			return nil, nil, fmt.Errorf("the socket's server runs as user %d instead of %d; somebody else may have put it there", user, c.user)
		}
	}
	return conn, socketInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

// ServerHandshake is refused: these are a client's.
func (socketCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for clients")
}

// Info describes the credentials to gRPC.
func (socketCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}

// Clone returns the credentials, which nothing changes.
func (c socketCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName does nothing: a socket has no name to check.
func (socketCredentials) OverrideServerName(string) error { return nil }

// checkDirectory refuses a socket in a directory that this process may write to: whatever takes this process over could put
// its own socket there. Publishers mount the directory read-only.
func checkDirectory(socket string) error {
	dir := filepath.Dir(socket)
	if writable(dir) {
		return fmt.Errorf("the socket's directory %s can be written to by this process, which could then pose as the connector; mount it read-only", dir)
	}
	return nil
}

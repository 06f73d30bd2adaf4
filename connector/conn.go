package connector

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/lanyard-k8s/lanyard/internal/places"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// connection is what is known of a connection from its beginning. A call finds it as its peer's AuthInfo, which costs
// nothing; a stats.Handler would be asked several times in every call.
type connection struct {
	credentials.CommonAuthInfo
	bucket *tokenreview.Bucket
	// user is the peer's user ID, -1 where it is not known. It is a hint for people: user namespaces change it, and a
	// connection that was handed on shows who opened it.
	user int64
	// from is whose share of the seats its calls have: the user's, or the address's.
	from places.Key
}

// AuthType names the kind of authentication to gRPC.
func (*connection) AuthType() string { return "lanyard" }

// connectionOf returns the connection that a call came by.
func connectionOf(ctx context.Context) *connection {
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.AuthInfo.(*connection); ok {
			return c
		}
	}
	return &connection{user: -1}
}

// bucketer makes the bucket that bounds the failed tokens of one connection.
type bucketer func() *tokenreview.Bucket

// transport are the server's transport credentials: they attach a connection to every connection. Over TLS the inner
// credentials make the handshake; on a Unix socket and in plain text there is none.
type transport struct {
	inner  credentials.TransportCredentials // nil without TLS
	bucket bucketer
}

func newTransport(config *tls.Config, bucket bucketer) transport {
	t := transport{bucket: bucket}
	if config != nil {
		t.inner = credentials.NewTLS(config)
	}
	return t
}

// ServerHandshake is called once for each connection.
func (t transport) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	from := places.Of(raw)
	c := &connection{bucket: t.bucket(), user: userOf(from), from: from}
	if t.inner == nil {
		return raw, c, nil
	}
	secured, info, err := t.inner.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	if tlsInfo, ok := info.(credentials.TLSInfo); ok {
		c.CommonAuthInfo = tlsInfo.CommonAuthInfo
	}
	return secured, c, nil
}

// userOf is the user ID of a Unix socket's other end, as the kernel tells it, or -1.
func userOf(k places.Key) int64 {
	if uid, ok := k.User(); ok {
		return int64(uid)
	}
	return -1
}

// ClientHandshake is refused: these are a server's.
func (transport) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for servers")
}

// Info describes the credentials to gRPC.
func (t transport) Info() credentials.ProtocolInfo {
	if t.inner != nil {
		return t.inner.Info()
	}
	return credentials.ProtocolInfo{SecurityProtocol: "plain"}
}

// Clone returns the credentials, which nothing changes.
func (t transport) Clone() credentials.TransportCredentials { return t }

// OverrideServerName is for clients.
func (transport) OverrideServerName(string) error {
	return errors.New("these credentials are for servers")
}

package client

import (
	"context"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// DialOptions present an access token with every gRPC call to one of the origins, as PerRPCCredentials do, and answer a rejected
// token: a unary call that ends as Unauthenticated is made once more with a new token, and a stream that does has the next call
// carry a new one. A server that rejects every token causes an exchange each half a minute at most.
func (w *Workload) DialOptions(origin ...string) ([]grpc.DialOption, error) {
	creds, err := w.PerRPCCredentials(origin...)
	if err != nil {
		return nil, err
	}
	return []grpc.DialOption{
		grpc.WithPerRPCCredentials(noting{creds}), grpc.WithChainUnaryInterceptor(w.unary), grpc.WithChainStreamInterceptor(w.stream),
	}, nil
}

// presented is the token that a call carried; credentials alone do not see what the server answers.
type presented struct{ token atomic.Pointer[secret] }

type presentedKey struct{}

// noting are credentials that note in the call's context what they have presented.
type noting struct{ credentials.PerRPCCredentials }

// GetRequestMetadata gets a token, and notes it for the interceptor.
func (c noting) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	values, err := c.PerRPCCredentials.GetRequestMetadata(ctx, uri...)
	if p, ok := ctx.Value(presentedKey{}).(*presented); ok && err == nil {
		token := conceal(strings.TrimPrefix(values["authorization"], "Bearer "))
		p.token.Store(&token)
	}
	return values, err
}

// unary repeats a call whose token was rejected, once.
func (w *Workload) unary(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	p := &presented{}
	err := invoke(context.WithValue(ctx, presentedKey{}, p), method, in, out, conn, opts...)
	token := p.token.Load()
	if status.Code(err) != codes.Unauthenticated || token == nil {
		return err
	}
	if _, ok := w.renew(ctx, (*token)()); !ok {
		return err
	}
	return invoke(ctx, method, in, out, conn, opts...)
}

// stream has a rejected token replaced. What a stream has carried already cannot be sent again by us.
func (w *Workload) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	p := &presented{}
	s, err := open(context.WithValue(ctx, presentedKey{}, p), desc, conn, method, opts...)
	if err != nil {
		w.rejected(p, err)
		return nil, err
	}
	return &watched{s, w, p}, nil
}

// rejected begins an exchange if an error means that the token was rejected, and does not wait for it.
func (w *Workload) rejected(p *presented, err error) {
	if token := p.token.Load(); token != nil && status.Code(err) == codes.Unauthenticated {
		_, _ = w.replacement((*token)())
	}
}

// watched is a stream whose end is looked at.
type watched struct {
	grpc.ClientStream
	w *Workload
	p *presented
}

// RecvMsg receives a message, and looks at the error that ends the stream.
func (s *watched) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		s.w.rejected(s.p, err)
	}
	return err
}

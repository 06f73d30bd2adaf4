package connector

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// TestT27RefusedBeforeTheMessage is T27: a call that its header alone refuses is told so without sending its message, holds no
// seat, and counts like any other refusal.
func TestT27RefusedBeforeTheMessage(t *testing.T) {
	t.Parallel()
	type change = func(*setup)
	for name, tc := range map[string]struct {
		role   nodebinding.Role
		change change
		header []string
		want   string // the violation's reason; empty if the message is waited for
	}{
		"a deployment, no token":                   {nodebinding.Deployment, nil, nil, "token_missing"},
		"a deployment, two headers":                {nodebinding.Deployment, nil, []string{"Bearer a", "Bearer a"}, "malformed_credentials"},
		"a deployment, no token at all":            {nodebinding.Deployment, nil, []string{"Bearer abc"}, "token_invalid"},
		"a deployment, a word that may be one":     {nodebinding.Deployment, nil, []string{"Bearer YWJj.YWJj.YWJj"}, ""},
		"a deployment that is told to audit":       {nodebinding.Deployment, func(s *setup) { s.Mode = nodebinding.Audit }, nil, "token_missing"},
		"a socket, no token":                       {nodebinding.Socket, nil, nil, ""},
		"a socket that wants one":                  {nodebinding.Socket, func(s *setup) { s.Rules.RequireToken = true }, nil, "token_missing"},
		"a socket, another scheme":                 {nodebinding.Socket, nil, []string{"Basic abc"}, "malformed_credentials"},
		"a socket in audit, another scheme":        {nodebinding.Socket, func(s *setup) { s.Mode = nodebinding.Audit }, []string{"Basic abc"}, ""},
		"a socket without binding, another scheme": {nodebinding.Socket, func(s *setup) { s.Mode = nodebinding.Disabled }, []string{"Basic abc"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, tc.role, func(s *setup) {
				if s.limits.InFlight = int64(s.limits.MessageBytes); tc.change != nil {
					tc.change(s)
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for _, value := range tc.header {
				ctx = metadata.AppendToOutgoingContext(ctx, keyAuthorization, value)
			}
			stream, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, healtheventv1.PlatformConnector_HealthEventOccurredV1_FullMethodName)
			must(t, err)
			seats := g.server.door.seats.now
			if tc.want == "" {
				eventually(t, "the message is waited for", func() bool { return seats() > 0 })
			} else {
				wantCode(t, "a call that sends no message", stream.RecvMsg(&emptypb.Empty{}), codes.Unauthenticated)
				if seats() != 0 {
					t.Errorf("%d bytes are taken", seats())
				}
			}
			violations := g.counts(t, "platform_connector_auth_violations_total")
			if violations[tc.want] != 1 && tc.want != "" || len(violations) > 0 && tc.want == "" {
				t.Errorf("violations %v, want %q once", violations, tc.want)
			}
			if n := len(g.Recent.List()); tc.want != "" && n != 1 {
				t.Errorf("%d violations are remembered", n)
			}
			wantReviews(t, g, 0)
		})
	}
}

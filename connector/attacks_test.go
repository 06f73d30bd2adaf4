package connector

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	authenticationv1 "k8s.io/api/authentication/v1"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// wantNoReview fails the test if anything was asked of the API server.
func wantReviews(t *testing.T, g *rig, want int64) {
	t.Helper()
	if got := g.backend.calls.Load(); got != want {
		t.Errorf("%d reviews, want %d", got, want)
	}
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: %s (%v), want %s", what, got, err, want)
	}
}

// TestT9T21HeadersAreRefusedWithoutAReview is T9 and T21.
func TestT9T21HeadersAreRefusedWithoutAReview(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket)
	good := g.backend.of(identity{monitor, "pod-1", own, ownUID})
	for what, header := range map[string][]string{
		"two headers":      {"Bearer " + good, "Bearer " + good},
		"a leading space":  {"Bearer  " + good},
		"a trailing space": {"Bearer " + good + " x"},
		"no scheme":        {good},
		"no credential":    {"Bearer "},
		"an empty value":   {""},
		"another scheme":   {"Token " + good},
		"two words":        {"Bearer a b"},
	} {
		wantCode(t, what, g.call(t, header, ""), codes.Unauthenticated)
	}
	for what, header := range map[string]string{
		"a newline":           "Bearer " + good[:20] + "\n" + good[20:],
		"a byte beyond ASCII": "Bearer \xff" + good,
		"a tab":               "Bearer \t" + good,
	} { // gRPC's own client does not send these; what the desk would do
		_, err := g.server.o.Desk.HealthEventOccurredV1(incoming(t.Context(), []string{header}), batchOf(""))
		wantCode(t, what, err, codes.Unauthenticated)
	}
	wantReviews(t, g, 0)
	must(t, g.call(t, []string{"bEaReR " + good}, ""))
	if got := g.counts(t, "platform_connector_auth_violations_total")["malformed_credentials"]; got != 11 {
		t.Errorf("malformed_credentials = %v, want 11", got)
	}
}

// TestT24GarbageCostsNothing is T24: 100,000 garbage tokens cause no review, keep no memory and leave a good caller alone.
// No other test runs meanwhile, since what they keep counts, too.
func TestT24GarbageCostsNothing(t *testing.T) {
	g := start(t, nodebinding.Socket, func(s *setup) { s.review.FallbackEvery = time.Hour }) // the good caller's own review is not due
	good := bearer(g.backend.of(identity{monitor, "pod-1", own, ownUID}))
	must(t, g.call(t, good, ""))
	desk := g.server.o.Desk
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var flood sync.WaitGroup
	for worker := range 4 {
		flood.Go(func() {
			for i := range 25_000 {
				word := fmt.Sprintf("%d-%d", worker, i)
				if i%2 == 0 { // what looks like a token a little
					word = base64.RawURLEncoding.EncodeToString([]byte(word))
					word = word + "." + word + "." + word
				}
				if _, err := desk.HealthEventOccurredV1(incoming(t.Context(), bearer(word)), batchOf("")); status.Code(err) != codes.Unauthenticated {
					t.Errorf("garbage: %v", err)
					return
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { flood.Wait(); close(over) }()
	var took []time.Duration
	for flooding := true; flooding || len(took) < 100; {
		start := time.Now()
		must(t, g.call(t, good, ""))
		took = append(took, time.Since(start))
		select {
		case <-over:
			flooding = false
		case <-time.After(time.Millisecond): // one call after the other would hold up the flood
		}
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("a good caller during the flood: %d calls, median %s, p99 %s", len(took), took[len(took)/2], p99)
	if median := took[len(took)/2]; median > time.Second || p99 > 10*time.Second {
		t.Errorf("a good caller is answered after %s, p99 %s", median, p99)
	}
	wantReviews(t, g, 1)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	if got := g.counts(t, "platform_connector_auth_violations_total")["token_invalid"]; got != 100_000 {
		t.Errorf("token_invalid = %v", got)
	}
	if n := len(g.Recent.List()); n > recentMost {
		t.Errorf("%d recent violations", n)
	}
	if lines := strings.Count(g.logs.String(), "batch violates"); lines > 200 {
		t.Errorf("%d lines about refusals", lines)
	}
}

// TestT25AFloodOfForgedTokens is T25 and T40: each connection pays for its failed tokens, and a flood that fails open would
// still name no other node.
func TestT25T40AFloodOfForgedTokens(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) {
		s.Rules.FailOpen = true
		s.review.FailedBurst, s.review.FailedEvery = 5, time.Hour
	})
	good := bearer(g.backend.of(identity{monitor, "pod-1", own, ownUID}))
	limited := 0
	for i := range 200 {
		err := g.call(t, bearer(minted(1_000_000+i)), foreign)
		switch status.Code(err) {
		case codes.Unauthenticated:
		case codes.Unavailable:
			limited++
		default:
			t.Fatalf("a forged token: %v", err)
		}
	}
	if got := g.backend.calls.Load(); got > 6 || limited < 190 {
		t.Errorf("%d reviews, %d limited", got, limited)
	}
	if len(g.kept()) != 0 {
		t.Errorf("a flood got through: %v", g.kept())
	}
	must(t, healtheventOn(t, g.dial(t), good)) // another connection has its own bucket
	if got := g.counts(t, "platform_connector_auth_violations_total")["rate_limited"]; got != float64(limited) {
		t.Errorf("rate_limited = %v, want %d", got, limited)
	}
}

func healtheventOn(t *testing.T, conn grpc.ClientConnInterface, authorization []string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, value := range authorization {
		ctx = metadata.AppendToOutgoingContext(ctx, keyAuthorization, value)
	}
	_, err := healtheventv1.NewPlatformConnectorClient(conn).HealthEventOccurredV1(ctx, batchOf(""))
	return err
}

// TestT26AliasesOfAToken is T26: other spellings of a known token are strangers or no tokens at all, and never reviewed twice.
func TestT26AliasesOfAToken(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket)
	good := g.backend.of(identity{monitor, "pod-1", own, ownUID})
	must(t, g.call(t, bearer(good), ""))
	for what, alias := range map[string]string{
		"trailing junk": good + "A.B", "padding": good + "=", "another last letter": good[:len(good)-1] + "x", "a fourth part": good + ".x",
	} {
		wantCode(t, what, g.call(t, bearer(alias), ""), codes.Unauthenticated)
	}
	if got := g.backend.calls.Load(); got > 2 {
		t.Errorf("%d reviews", got)
	}
	must(t, g.call(t, bearer(good), ""))
}

// TestT28OneReviewForAThousandFirstUses is T28.
func TestT28OneReviewForAThousandFirstUses(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) {
		s.limits.Streams, s.limits.InFlight = 2000, 2000*int64(s.limits.MessageBytes)
		s.review.MaxWaiting = 2000
		s.review.AnswerIn = 4 * time.Second
	})
	release := make(chan struct{})
	token := bearer(g.backend.says(func(context.Context) (authenticationv1.TokenReviewStatus, error) {
		<-release
		return accepted(identity{monitor, "pod-1", own, ownUID}), nil
	}))
	var calls sync.WaitGroup
	for range 1000 {
		calls.Go(func() {
			if err := g.call(t, token, ""); err != nil {
				t.Errorf("first use: %v", err)
			}
		})
	}
	eventually(t, "a review", func() bool { return g.backend.calls.Load() == 1 })
	close(release)
	calls.Wait()
	wantReviews(t, g, 1)
}

// TestT36T37StrangeMethods is T36, T37 and T38: streams, reflection and unknown methods are denied, and no stream carries events,
// so that none can outlive its token.
func TestT36T37T38StrangeMethods(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket)
	for _, method := range []string{
		"/datamodels.PlatformConnector/HealthEventOccurredV2", "/datamodels.PlatformConnector/", "/grpc.health.v1.Health/List",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/x/y", "/DATAMODELS.PlatformConnector/HealthEventOccurredV1",
	} {
		err := g.conn.Invoke(t.Context(), method, &emptypb.Empty{}, &emptypb.Empty{})
		wantCode(t, method, err, codes.PermissionDenied)
		stream, err := g.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
		if err == nil {
			err = stream.RecvMsg(&emptypb.Empty{})
		}
		wantCode(t, "stream "+method, err, codes.PermissionDenied)
	}
	health := healthv1.NewHealthClient(g.conn)
	answer, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "datamodels.PlatformConnector"})
	if err != nil || answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", answer, err)
	}
	watch, err := health.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	must(t, err)
	if first, err := watch.Recv(); err != nil || first.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("watch: %v, %v", first, err)
	}
	if got := g.counts(t, "lanyard_connector_unknown_methods_total")[""]; got != 12 {
		t.Errorf("counted %v, want 12", got)
	}
}

func TestTheDoorDeniesWhatSomebodyRegistered(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket)
	d := newDoor(g.Metrics, g.Log, &seats{most: 1, first: 1}, anybody)
	never := func(context.Context, any) (any, error) { t.Error("got in"); return nil, nil }
	_, err := d.interceptUnary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/other.Service/Method"}, never)
	wantCode(t, "unary", err, codes.PermissionDenied)
	err = d.interceptStream(nil, nil, &grpc.StreamServerInfo{FullMethod: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"},
		func(any, grpc.ServerStream) error { t.Error("got in"); return nil })
	wantCode(t, "stream", err, codes.PermissionDenied)
}

func TestAPanicEndsOneCall(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) { s.Reviewer = panics{} })
	err := g.call(t, bearer(minted(1)), "")
	wantCode(t, "panic", err, codes.Internal)
	must(t, g.call(t, nil, ""))
	if strings.Contains(err.Error()+g.logs.String(), "secret") {
		t.Error("the panic's value came out")
	}
}

type panics struct{}

func (panics) Review(context.Context, string, *tokenreview.Bucket) (tokenreview.Verdict, error) {
	panic("secret")
}

// TestT27TooMuch is T27: what is too large or too much is refused, and the connection, or the next one, works on.
func TestT27TooMuch(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) { s.limits.Connections, s.limits.PerUser = 3, 3 })
	if err := g.call(t, bearer(strings.Repeat("x", 20<<10)), ""); err == nil {
		t.Error("a header of 20 KiB passed")
	}
	must(t, g.call(t, nil, ""))
	large := batchOf("")
	large.Events[0].Message = strings.Repeat("x", 4<<20)
	wantCode(t, "a message over 4 MiB", g.send(t, nil, large), codes.ResourceExhausted)
	must(t, g.call(t, nil, ""))

	var held []net.Conn
	for range 4 {
		conn, err := net.Dial("unix", g.socket)
		must(t, err)
		held = append(held, conn)
	}
	eventually(t, "connections are turned away", func() bool { return g.counts(t, "lanyard_connector_connections_refused_total")[""] >= 2 })
	must(t, g.call(t, nil, "")) // the one that is open works on
	for _, conn := range held {
		must(t, conn.Close())
	}
	eventually(t, "there is room again", func() bool { return healtheventOn(t, g.dial(t), nil) == nil })
}

// TestT33NoInjection is T33: what a caller sends cannot make a line of its own, nor be a token in a log.
func TestT33NoInjection(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket)
	evil := "x\n{\"level\":\"info\",\"message\":\"all is well\"}"
	err := g.call(t, nil, evil)
	wantCode(t, "evil", err, codes.PermissionDenied)
	if text := g.logs.String() + err.Error(); strings.Contains(text, "all is well") {
		t.Errorf("repeated: %s", text)
	}
	wantCode(t, "plain", g.call(t, nil, foreign), codes.PermissionDenied)
	if !strings.Contains(g.logs.String(), foreign) {
		t.Error("the log does not say which node was named")
	}
}

// TestT41WholeBatches is T41: nothing of a refused batch is stamped, and nil events are no events.
func TestT41WholeBatches(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket)
	desk := g.server.o.Desk
	mixed := batchOf("", own, foreign)
	_, err := desk.HealthEventOccurredV1(incoming(t.Context(), nil), mixed)
	wantCode(t, "mixed", err, codes.PermissionDenied)
	if !strings.Contains(err.Error(), "event 2:") || mixed.Events[0].NodeName != "" {
		t.Errorf("%v; first name %q", err, mixed.Events[0].NodeName)
	}
	holes := &healtheventv1.HealthEvents{Events: []*healtheventv1.HealthEvent{nil, {}, nil}}
	if _, err := desk.HealthEventOccurredV1(incoming(t.Context(), nil), holes); err != nil {
		t.Errorf("nil events: %v", err)
	}
	must(t, g.call(t, nil)) // an empty batch
	if got := g.kept(); !slices.Equal(got, []string{own}) {
		t.Errorf("handed on %v", got)
	}
}

// TestT29AnswersAreQuickInAnOutage is T29 at this level: the integration tests take a real API server away.
func TestT29AnswersAreQuickInAnOutage(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket)
	known := bearer(g.backend.of(identity{monitor, "pod-1", own, ownUID}))
	must(t, g.call(t, known, ""))
	silent := impatient(g)
	begin := time.Now()
	err := g.call(t, silent, "")
	if took := time.Since(begin); took > 4*time.Second { // two, and what the floods beside it take of a busy machine
		t.Errorf("answered after %s", took)
	}
	if status.Code(err) != codes.Unavailable || !marked(err) {
		t.Errorf("%v, want Unavailable with ErrorInfo", err)
	}
	must(t, g.call(t, known, ""))
}

// TestT22ATokenEndsAtItsTime is T22: no leeway of the API server's extends it.
func TestT22ATokenEndsAtItsTime(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket)
	body := fmt.Sprintf(`{"aud":[%q],"exp":%d}`, audience, time.Now().Add(-time.Minute).Unix())
	expired := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body)) + ".c2ln"
	wantCode(t, "expired", g.call(t, bearer(expired), ""), codes.Unauthenticated)
	wantReviews(t, g, 0)
	if got := g.counts(t, "platform_connector_auth_violations_total")["token_expired"]; got != 1 {
		t.Errorf("token_expired = %v", got)
	}
}

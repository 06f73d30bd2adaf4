package forward

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestBothWays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options  func(*testing.T, *recorder) Options
		wantAuth []string
	}{
		"over a socket without a token": {func(t *testing.T, r *recorder) Options { return Options{Socket: onSocket(t, r)} }, nil},
		"over a socket with a token": {func(t *testing.T, r *recorder) Options {
			return Options{Socket: onSocket(t, r), TokenFile: write(t, "token-1")}
		}, []string{"Bearer token-1"}},
		"over TLS": {func(t *testing.T, r *recorder) Options { return onTLS(t, r).options }, []string{"Bearer token-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{}
			s := newSink(t, tc.options(t, r))
			report, err := s.Deliver(t.Context(), batch("pod", "key", "1", "2"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sink.Report{sink.Written: 2}, report); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			calls := r.got()
			if len(calls) != 1 {
				t.Fatalf("%d calls", len(calls))
			}
			if diff := cmp.Diff([]string{"1", "2"}, calls[0].ids); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAuth, calls[0].auth); diff != "" {
				t.Errorf("authorization (-want +got):\n%s", diff)
			}
			if key := calls[0].key; len(key) != 1 || !regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`).MatchString(key[0]) {
				t.Errorf("idempotency key %q", key)
			}
		})
	}
}

func TestTheTokenIsReadForEachCall(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	side := onTLS(t, r)
	s := newSink(t, side.options)
	for i, content := range []string{"token-1\n", "token-2", "", "two words", "line\nbreak", strings.Repeat("x", 9000), "\xff"} {
		if err := os.WriteFile(side.options.TokenFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Deliver(t.Context(), batch("pod", fmt.Sprint(i), "1"))
		if i < 2 && err != nil {
			t.Fatal(err)
		}
		if e := sink.Classify(err); i >= 2 && (e == nil || e.Final || e.Reason != sink.Credential || strings.Contains(e.Error(), "words")) {
			t.Errorf("%q: %v", content, err)
		}
	}
	var got []string
	for _, c := range r.got() {
		got = append(got, c.auth...)
	}
	if diff := cmp.Diff([]string{"Bearer token-1", "Bearer token-2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	retry := map[codes.Code]sink.Reason{
		codes.Unavailable: sink.Unreachable, codes.DeadlineExceeded: sink.Timeout, codes.Canceled: sink.Timeout,
		codes.ResourceExhausted: sink.Busy, codes.Aborted: sink.Conflict, codes.Unauthenticated: sink.Unauthorized,
		codes.Internal: sink.Internal, codes.Unknown: sink.Internal, codes.Unimplemented: sink.Internal, codes.DataLoss: sink.Internal,
	}
	code := codes.OK
	r := &recorder{answer: func(context.Context) error { return status.Error(code, "you sent token-1, "+strings.Repeat("x", 1000)) }}
	s := newSink(t, Options{Socket: onSocket(t, r), TokenFile: write(t, "token-1")})
	for code = codes.Canceled; code <= codes.Unauthenticated; code++ {
		report, err := s.Deliver(t.Context(), batch("pod", "key", "1"))
		e := sink.Classify(err)
		if e == nil {
			t.Fatalf("%s is a success", code)
		}
		if want, passes := retry[code]; passes == e.Final || (passes && e.Reason != want) || (!passes && (e.Reason != sink.Refused || e.Code.String() != code.String())) {
			t.Errorf("%s: %+v", code, e)
		}
		if e.Final != (report[sink.RefusedByServer] == 1) {
			t.Errorf("%s: %v", code, report)
		}
		if strings.Contains(err.Error(), "token-1") || len(err.Error()) > 400 {
			t.Errorf("the error says %q", err)
		}
	}
}

func TestOnlyNodeLocalBatches(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	s := newSink(t, Options{Socket: onSocket(t, r)})
	for _, scope := range []nodebinding.Scope{nodebinding.CrossNode, "of tomorrow"} {
		b := batch("pod", "key", "1")
		b.Scope = scope
		_, err := s.Deliver(t.Context(), b)
		if e := sink.Classify(err); e == nil || !e.Final || e.Reason != sink.CrossNode || e.Code != nodebinding.PermissionDenied {
			t.Errorf("scope %q: %v", scope, err)
		}
	}
	if len(r.got()) != 0 {
		t.Error("it was sent")
	}
	undecided := batch("", "", "1")
	undecided.Scope = "" // node binding is off
	if _, err := s.Deliver(t.Context(), undecided); err != nil || len(r.got()) != 1 {
		t.Errorf("where node binding is off: %v", err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	later := batch("", "key", "1")
	later.Received = later.Received.Add(time.Nanosecond)
	long := batch("pod", strings.Repeat("k", 128), "1")
	for name, tc := range map[string]struct {
		a, b sink.Batch
		same bool
	}{
		"a publisher's repetition":                        {batch("pod", "key", "1"), batch("pod", "key", "2"), true},
		"another key":                                     {batch("pod", "key", "1"), batch("pod", "other", "1"), false},
		"another publisher with the same key":             {batch("pod", "key", "1"), batch("other", "key", "1"), false},
		"a publisher that is not verified":                {batch("pod", "key", "1"), batch("", "key", "1"), false},
		"our repetition for one that is not":              {batch("", "key", "1"), batch("", "key", "1"), true},
		"its next batch with the same key":                {batch("", "key", "1"), later, false},
		"other events at the same moment":                 {batch("", "key", "1"), batch("", "key", "2"), false},
		"no key":                                          {batch("pod", "", "1"), batch("pod", "", "2"), false},
		"the parts of pod and key in another composition": {batch("ab", "c", "1"), batch("a", "bc", "1"), false},
		"the longest key":                                 {long, long, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := keyOf(tc.a)
			if err != nil {
				t.Fatal(err)
			}
			b, err := keyOf(tc.b)
			if err != nil {
				t.Fatal(err)
			}
			if (a == b) != tc.same || len(a) > 100 {
				t.Errorf("%q and %q", a, b)
			}
		})
	}
}

func TestALargeBatchGoesInParts(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	s := newSink(t, Options{Socket: onSocket(t, r)})
	b := batch("pod", "key", "1", "2", "3", "4")
	for _, e := range b.Events {
		e.Message = strings.Repeat("x", 1_500_000)
	}
	report, err := s.Deliver(t.Context(), b)
	if err != nil || report[sink.Written] != 4 {
		t.Fatal(report, err)
	}
	calls := r.got()
	if len(calls) != 2 || calls[0].key[0] == calls[1].key[0] {
		t.Fatalf("calls %+v", calls)
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4"}, append(calls[0].ids, calls[1].ids...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if parts := split(nil, 10); len(parts) != 1 || len(parts[0]) != 0 {
		t.Errorf("no events make %v", parts)
	}
}

// TestAnEventTooLargeForTheOtherSide meets a connector that takes smaller calls than this one. The node name that is filled in
// makes a call larger than it came, so that equal limits do not help.
func TestAnEventTooLargeForTheOtherSide(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	s := newSink(t, Options{Socket: onSocket(t, r, grpc.MaxRecvMsgSize(64<<10))})
	b := batch("pod", "key", "1", "2", "3", "4", "5")
	b.Events[2].Message = strings.Repeat("x", 70_000)
	report, err := s.Deliver(t.Context(), b)
	if e := sink.Classify(err); e == nil || !e.Final || e.Reason != sink.TooLarge || e.Code != nodebinding.InvalidArgument {
		t.Errorf("error %+v", e)
	}
	if diff := cmp.Diff(sink.Report{sink.Written: 4, sink.RefusedByServer: 1}, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	var got []string
	keys := map[string]bool{}
	for _, c := range r.got() {
		got = append(got, c.ids...)
		keys[c.key[0]] = true
	}
	if diff := cmp.Diff([]string{"1", "2", "4", "5"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	calls := len(r.got())
	if len(keys) != calls {
		t.Errorf("%d keys in %d calls", len(keys), calls)
	}
	if _, err := s.Deliver(t.Context(), b); err == nil {
		t.Error("accepted the second time")
	}
	for _, c := range r.got()[calls:] {
		if !keys[c.key[0]] {
			t.Errorf("the repetition has a new key %s", c.key[0])
		}
	}
}

// TestABatchOfMoreEventsThanTheOtherSideTakes goes in parts as they are taken by default, and in halves where the other side takes fewer.
func TestABatchOfMoreEventsThanTheOtherSideTakes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		events, parts int // of the batch, and of each event
		most          int // events that the other side takes
		calls         int
	}{
		"as many as may be":        {weight.DefaultEvents, 1, weight.DefaultEvents, 1},
		"one more":                 {weight.DefaultEvents + 1, 1, weight.DefaultEvents, 2},
		"with too many parts":      {4, weight.DefaultParts / 2, weight.DefaultEvents, 2},
		"to one that takes fewer":  {8, 1, 4, 3},
		"to one that takes single": {4, 1, 1, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{}
			r.answer = func(context.Context) error {
				calls := r.got()
				if len(calls[len(calls)-1].ids) <= tc.most {
					return nil
				}
				refusal, err := status.New(codes.InvalidArgument, "too many").WithDetails(&errdetails.ErrorInfo{Reason: weight.ErrorReason, Domain: weight.ErrorDomain})
				if err != nil {
					return err
				}
				return refusal.Err()
			}
			s := newSink(t, Options{Socket: onSocket(t, r)})
			b := batch("pod", "key")
			for range tc.events {
				b.Events = append(b.Events, &healtheventv1.HealthEvent{Id: "1", ErrorCode: make([]string, tc.parts)})
			}
			report, err := s.Deliver(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sink.Report{sink.Written: tc.events}, report); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if got := len(r.got()); got != tc.calls {
				t.Errorf("%d calls, want %d", got, tc.calls)
			}
		})
	}
}

func TestTheOtherSideIsVerified(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *Options){
		"another authority": func(t *testing.T, o *Options) {
			other, err := certs.SelfSigned(time.Now(), "connector.test")
			if err != nil {
				t.Fatal(err)
			}
			o.CAFile = write(t, string(other.CA))
		},
		"another name":         func(_ *testing.T, o *Options) { o.ServerName = "another.test" },
		"the address's host":   func(_ *testing.T, o *Options) { o.ServerName = "" },
		"a server without TLS": func(t *testing.T, o *Options) { o.Address = plaintext(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{}
			o := onTLS(t, r).options
			spoil(t, &o)
			s := newSink(t, o)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := s.Deliver(ctx, batch("pod", "key", "1"))
			if e := sink.Classify(err); e == nil || e.Final || e.Reason != sink.Unreachable {
				t.Errorf("got %v", err)
			}
			if len(r.got()) != 0 {
				t.Error("it was sent")
			}
		})
	}
}

// plaintext is a listener that fails the test when a token arrives at it.
func plaintext(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			n, _ := c.Read(buf)
			if strings.Contains(string(buf[:n]), "token-1") {
				t.Error("the token went over the wire in clear text")
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().String()
}

func TestARenewedAuthorityIsTrusted(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	side := onTLS(t, r)
	good, err := os.ReadFile(side.options.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	other, err := certs.SelfSigned(time.Now(), "connector.test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(side.options.CAFile, other.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, side.options)
	if _, err := s.Deliver(t.Context(), batch("pod", "key", "1")); err == nil {
		t.Fatal("an unknown authority is trusted")
	}
	if err := os.WriteFile(side.options.CAFile, good, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, err := s.Deliver(ctx, batch("pod", "key", "1"))
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestASilentConnectionIsMadeAnew(t *testing.T) {
	t.Parallel()
	r := &recorder{answer: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	s := newSink(t, Options{Socket: onSocket(t, r)})
	first := s.conn
	for range timeoutsInARow {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := s.Deliver(ctx, batch("pod", "key", "1"))
		cancel()
		if e := sink.Classify(err); e == nil || e.Reason != sink.Timeout {
			t.Fatalf("got %v", err)
		}
	}
	if s.conn == first {
		t.Error("the connection is still the same")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	ca := write(t, "no certificate")
	const either, both = "either a socket or an address must be given", "an address needs a CA file and a token file"
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"nowhere":                       {Options{}, either},
		"both":                          {Options{Socket: "/s", Address: "a:1", CAFile: ca, TokenFile: ca}, either},
		"an address without a CA":       {Options{Address: "a:1", TokenFile: ca}, both},
		"an address without a token":    {Options{Address: "a:1", CAFile: ca}, both},
		"a CA file without certificate": {Options{Address: "a:1", CAFile: ca, TokenFile: ca, ServerName: "a"}, "holds no certificate"},
		"a CA file that is not there":   {Options{Address: "a:1", CAFile: filepath.Join(t.TempDir(), "none"), TokenFile: ca}, "read the CA file"},
		"an address without a port":     {Options{Address: "a", CAFile: ca, TokenFile: ca}, `the address "a" is not host:port`},
	} {
		s, err := New(tc.options)
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	s, err := New(Options{Socket: "/nowhere/socket"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Deliver(t.Context(), batch("pod", "key", "1"))
	if e := sink.Classify(err); e == nil || e.Final || e.Reason != sink.Unreachable {
		t.Errorf("nobody there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Deliver(t.Context(), batch("pod", "key", "1")); sink.Classify(err) == nil {
		t.Error("a closed sink delivers")
	}
	if report, err := s.Deliver(t.Context(), sink.Batch{Scope: nodebinding.NodeLocal, Events: []*healtheventv1.HealthEvent{}}); err != nil || report != nil {
		t.Errorf("no events: %v, %v", report, err)
	}
}

package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is a connector that answers what a test wants it to.
type desk struct {
	healtheventv1.UnimplementedPlatformConnectorServer
	socket string
	answer func(call int, batch *healtheventv1.HealthEvents) error

	mu     sync.Mutex
	calls  int
	keys   []string
	tokens []string
	took   []string // the messages of accepted events
}

func (d *desk) HealthEventOccurredV1(ctx context.Context, in *healtheventv1.HealthEvents) (*emptypb.Empty, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	d.mu.Lock()
	d.calls++
	call := d.calls
	d.keys = append(d.keys, md.Get("idempotency-key")...)
	d.tokens = append(d.tokens, md.Get("authorization")...)
	d.mu.Unlock()
	if d.answer != nil {
		if err := d.answer(call, in); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range in.GetEvents() {
		d.took = append(d.took, e.GetMessage())
	}
	return &emptypb.Empty{}, nil
}

func (d *desk) seen() (keys, tokens, took []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.keys), slices.Clone(d.tokens), slices.Clone(d.took)
}

// serve runs a desk on a socket.
func serve(t *testing.T, answer func(int, *healtheventv1.HealthEvents) error) *desk {
	t.Helper()
	d := &desk{socket: filepath.Join(t.TempDir(), "s.sock"), answer: answer}
	l, err := net.Listen("unix", d.socket)
	must(t, err)
	s := grpc.NewServer()
	healtheventv1.RegisterPlatformConnectorServer(s, d)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return d
}

func (d *desk) publisher(t *testing.T, change ...func(*client.Options)) *client.Publisher {
	t.Helper()
	o := client.Options{
		Target: "unix://" + d.socket, ServerUser: int64(os.Getuid()), AllowWritableDirectory: true, FirstPause: time.Millisecond, MostPause: 5 * time.Millisecond,
	}
	for _, c := range change {
		c(&o)
	}
	p, err := client.NewPublisher(o)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.Close(ctx)
	})
	return p
}

func batch(message string) *healtheventv1.HealthEvents {
	return &healtheventv1.HealthEvents{Version: 1, Events: []*healtheventv1.HealthEvent{{CheckName: "GpuXidError", Message: message}}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPublishTriesAgainUnderOneKey(t *testing.T) {
	t.Parallel()
	d := serve(t, func(call int, _ *healtheventv1.HealthEvents) error {
		switch call {
		case 1:
			return status.Error(codes.Unavailable, "not now")
		case 2:
			return status.Error(codes.DeadlineExceeded, "too slow")
		default:
			return nil
		}
	})
	p := d.publisher(t)
	must(t, p.Publish(t.Context(), batch("one")))
	must(t, p.Publish(t.Context(), batch("two")))
	keys, _, took := d.seen()
	if len(keys) != 4 || keys[0] != keys[1] || keys[1] != keys[2] || keys[2] == keys[3] || len(keys[0]) != 32 {
		t.Errorf("keys %v", keys)
	}
	if !slices.Equal(took, []string{"one", "two"}) {
		t.Errorf("took %v", took)
	}
}

func TestPublishGivesUpOnAFinalAnswer(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.PermissionDenied, codes.InvalidArgument, codes.Unauthenticated, codes.ResourceExhausted, codes.Internal} {
		d := serve(t, func(call int, _ *healtheventv1.HealthEvents) error {
			if call == 1 {
				return status.Error(code, "no")
			}
			return nil
		})
		p := d.publisher(t)
		if err := p.Publish(t.Context(), batch("one")); status.Code(err) != code || client.Temporary(err) {
			t.Errorf("%s: %v", code, err)
		}
		must(t, p.Publish(t.Context(), batch("two"))) // the next one goes on
	}
}

func TestBatchesArriveInOrder(t *testing.T) {
	t.Parallel()
	d := serve(t, func(call int, _ *healtheventv1.HealthEvents) error {
		if call%3 == 0 {
			return status.Error(codes.Unavailable, "not now")
		}
		return nil
	})
	var mu sync.Mutex
	ended := 0
	p := d.publisher(t, func(o *client.Options) {
		o.Ended = func(_ *healtheventv1.HealthEvents, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ended++
			}
		}
	})
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprint(i))
		must(t, p.Enqueue(batch(want[i])))
	}
	must(t, p.Close(t.Context()))
	if _, _, took := d.seen(); !slices.Equal(took, want) || ended != 50 {
		t.Errorf("took %v, %d ended well", took, ended)
	}
	if err := p.Enqueue(batch("late")); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestAFullQueueRefusesTheNewest(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	d := serve(t, func(int, *healtheventv1.HealthEvents) error { <-release; return nil })
	for name, change := range map[string]func(*client.Options){
		"by number": func(o *client.Options) { o.MaxBatches = 3 },
		"by bytes":  func(o *client.Options) { o.MaxBytes = 3*40 + 10 },
	} {
		p := d.publisher(t, change)
		var err error
		n := 0
		for ; err == nil; n++ {
			err = p.Enqueue(batch(strings.Repeat("x", 20)))
		}
		if !errors.Is(err, client.ErrFull) || n != 4 {
			t.Errorf("%s: %v after %d", name, err, n)
		}
	}
	close(release)
}

func TestCloseSaysWhatIsLost(t *testing.T) {
	t.Parallel()
	d := serve(t, func(int, *healtheventv1.HealthEvents) error { return status.Error(codes.Unavailable, "never") })
	var mu sync.Mutex
	var ends []error
	p := d.publisher(t, func(o *client.Options) {
		o.Ended = func(_ *healtheventv1.HealthEvents, err error) { mu.Lock(); defer mu.Unlock(); ends = append(ends, err) }
	})
	must(t, p.Enqueue(batch("one")))
	must(t, p.Enqueue(batch("two")))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx); !errors.Is(err, client.ErrClosed) || !strings.Contains(err.Error(), "2 batches") {
		t.Errorf("close: %v", err)
	}
	if len(ends) != 2 || !errors.Is(ends[0], client.ErrClosed) {
		t.Errorf("ends: %v", ends)
	}
}

func TestPublishEndsWithItsContext(t *testing.T) {
	t.Parallel()
	d := serve(t, func(int, *healtheventv1.HealthEvents) error { return status.Error(codes.Unavailable, "never") })
	p := d.publisher(t)
	var both sync.WaitGroup
	for range 2 { // one is being sent, the other waits behind it
		both.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := p.Publish(ctx, batch("x")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		})
	}
	both.Wait()
}

func TestTheTokenIsReadForEveryCall(t *testing.T) {
	t.Parallel()
	d := serve(t, nil)
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("first\n"), 0o600))
	p := d.publisher(t, func(o *client.Options) { o.TokenFile = file })
	must(t, p.Publish(t.Context(), batch("one")))
	must(t, os.WriteFile(file, []byte("second"), 0o600))
	must(t, p.Publish(t.Context(), batch("two")))
	if _, tokens, _ := d.seen(); !slices.Equal(tokens, []string{"Bearer first", "Bearer second"}) {
		t.Errorf("tokens %v", tokens)
	}
}

func TestATokenFileThatIsNoGood(t *testing.T) {
	t.Parallel()
	const marker = "eyJmarker"
	for name, tc := range map[string]struct{ content, want string }{
		"absent": {"", "no such file or directory"}, "empty": {"\n", "is empty"}, "a space": {marker + " x", "holds a space"},
		"a newline within": {marker + "\nx", "holds a space"}, "too long": {strings.Repeat(marker, 1000), "longer than any token"},
	} {
		file := filepath.Join(t.TempDir(), "token")
		if tc.content != "" {
			must(t, os.WriteFile(file, []byte(tc.content), 0o600))
		}
		c := client.PublisherCredentials(file)
		_, err := c.GetRequestMetadata(t.Context())
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, c, c), marker) {
			t.Errorf("%s: the token is shown", name)
		}
	}
}

func TestNoTokenInClearText(t *testing.T) {
	t.Parallel()
	if _, err := grpc.NewClient("localhost:1", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(client.PublisherCredentials("x"))); err == nil {
		t.Error("gRPC takes the credentials on a connection in clear text")
	}
}

func TestWhoListensAndWhere(t *testing.T) {
	t.Parallel()
	d := serve(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	why := make(chan error, 1)
	p := d.publisher(t, func(o *client.Options) {
		o.ServerUser = int64(os.Getuid()) + 1
		o.Retrying = func(err error) {
			if strings.Contains(err.Error(), "the socket's server runs as user") {
				select {
				case why <- err:
				default:
				}
				cancel()
			}
		}
	})
	if err := p.Publish(ctx, batch("x")); err == nil || len(why) == 0 {
		t.Errorf("another user's socket: %v", err)
	}
	_, err := client.NewPublisher(client.Options{Target: "unix://" + d.socket})
	if err == nil || !strings.Contains(err.Error(), "mount it read-only") {
		t.Errorf("a directory that we may write to: %v", err)
	}
}

func TestOptionsThatAreNoGood(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		o    client.Options
		want string
	}{
		"no target":           {client.Options{}, "a target is needed"},
		"a relative socket":   {client.Options{Target: "unix://s.sock"}, "must be absolute"},
		"a scheme":            {client.Options{Target: "https://x:1"}, "without a scheme"},
		"a socket with a CA":  {client.Options{Target: "unix:///s", CAFile: "x"}, "neither a CA file"},
		"a CA that is not":    {client.Options{Target: "x:1", CAFile: "/dev/null"}, "holds no certificate"},
		"a CA file not there": {client.Options{Target: "x:1", CAFile: "/nowhere/ca"}, "read the CA file"},
		"a negative bound":    {client.Options{Target: "x:1", MaxBatches: -1}, "must be positive"},
		"a negative time":     {client.Options{Target: "x:1", CallTimeout: -1}, "must be positive"},
	} {
		if p, err := client.NewPublisher(tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
			if err == nil {
				_ = p.Close(t.Context())
			}
		}
	}
}

// TestABatchThatNoConnectorTakesIsNotSent: its error names the field and the bound, nothing is sent, and the next batch goes on.
func TestABatchThatNoConnectorTakesIsNotSent(t *testing.T) {
	t.Parallel()
	events := func(n, codes int) *healtheventv1.HealthEvents {
		b := &healtheventv1.HealthEvents{Version: 1}
		for range n {
			b.Events = append(b.Events, &healtheventv1.HealthEvent{Message: "m", ErrorCode: make([]string, codes)})
		}
		return b
	}
	for name, tc := range map[string]struct {
		bounds weight.Bounds
		batch  *healtheventv1.HealthEvents
		want   string
	}{
		"as many events as are taken": {weight.Bounds{}, events(weight.DefaultEvents, 1), ""},
		"one more":                    {weight.Bounds{}, events(weight.DefaultEvents+1, 1), "events: a batch may have at most 2048 events (limits.maxEvents); report in smaller batches"},
		"too many codes":              {weight.Bounds{}, events(2, weight.DefaultParts), "events[1].errorCode: a batch may have at most 16384 error codes"},
		"to a connector of more":      {weight.Bounds{Events: 4000}, events(4000, 1), ""},
		"to a connector of fewer":     {weight.Bounds{Events: 3}, events(4, 1), "events: a batch may have at most 3 events"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := serve(t, nil)
			p := d.publisher(t, func(o *client.Options) { o.Batch = tc.bounds })
			err := p.Publish(t.Context(), tc.batch)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, client.ErrTooMuch) || !strings.Contains(err.Error(), tc.want) || client.Temporary(err) {
				t.Errorf("Publish: %v, want %q", err, tc.want)
			}
			if err := p.Enqueue(tc.batch); !errors.Is(err, client.ErrTooMuch) {
				t.Errorf("Enqueue: %v", err)
			}
			err = p.Publish(t.Context(), events(1, 1))
			if _, _, took := d.seen(); err != nil || len(took) != 1 {
				t.Errorf("the next batch: %v, %d events", err, len(took))
			}
		})
	}
}

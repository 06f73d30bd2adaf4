package sink_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for name, tc := range map[string]struct {
		err       error
		wantFinal bool
		want      sink.Reason
		wantCode  nodebinding.Code
	}{
		"what is to be tried again":         {sink.Retry(sink.Busy, cause), false, sink.Busy, nodebinding.Unavailable},
		"what is final":                     {sink.Final(sink.CrossNode, nodebinding.PermissionDenied, cause), true, sink.CrossNode, nodebinding.PermissionDenied},
		"an error within others":            {fmt.Errorf("deliver: %w", sink.Final(sink.TooLarge, nodebinding.InvalidArgument, cause)), true, sink.TooLarge, nodebinding.InvalidArgument},
		"an error that nobody called final": {context.DeadlineExceeded, false, sink.Internal, nodebinding.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sink.Classify(tc.err)
			if got.Final != tc.wantFinal || got.Reason != tc.want || got.Code != tc.wantCode {
				t.Errorf("Classify = %+v", got)
			}
			if tc.want != sink.Internal && !errors.Is(tc.err, cause) {
				t.Error("the cause is lost")
			}
		})
	}
	if got := sink.Classify(nil); got != nil {
		t.Errorf("no error is %v", got)
	}
}

func TestNilEventsAreNone(t *testing.T) {
	t.Parallel()
	event := &healtheventv1.HealthEvent{CheckName: "Check"}
	b := sink.NewBatch([]*healtheventv1.HealthEvent{nil, event, nil}, sink.Caller{}, nodebinding.NodeLocal, time.Unix(1, 0))
	if len(b.Events) != 1 || b.Events[0] != event {
		t.Errorf("kept %v", b.Events)
	}
	if b.Caller.Verified() {
		t.Error("nobody is verified")
	}
}

func TestWordsFitLabels(t *testing.T) {
	t.Parallel()
	label := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	words := []string{}
	for _, o := range sink.Outcomes() {
		words = append(words, "outcome "+string(o))
	}
	for _, r := range sink.Reasons() {
		words = append(words, "reason "+string(r))
	}
	for _, n := range sink.Names() {
		words = append(words, "name "+string(n))
	}
	slices.Sort(words)
	if diff := cmp.Diff(slices.Compact(slices.Clone(words)), words); diff != "" {
		t.Errorf("words stand twice (-want +got):\n%s", diff)
	}
	for _, w := range words {
		if _, word, _ := strings.Cut(w, " "); !label.MatchString(word) {
			t.Errorf("%q fits no label", w)
		}
	}
}

func TestReportCountsRefusals(t *testing.T) {
	t.Parallel()
	r := sink.Report{sink.Written: 3, sink.Skipped: 1, sink.RefusedName: 2, sink.RefusedRate: 1}
	if got := r.Refused(); got != 3 {
		t.Errorf("Refused = %d", got)
	}
	if got := sink.Report(nil).Refused(); got != 0 {
		t.Errorf("Refused of nothing = %d", got)
	}
}

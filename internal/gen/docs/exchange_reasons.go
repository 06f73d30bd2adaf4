package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// explained is one table of the exchange's reasons.
type explained struct {
	title, intro, file string
	head               []string
	rows               []explanation
}

// explanation is a reason, what stands between its meaning and the advice, and what to do about it.
type explanation struct{ text, extra, do string }

// exchangeReasons explains why there is no access token, why a pod was not judged well, and why what stood has ended.
func exchangeReasons(root string) ([]byte, error) {
	var b strings.Builder
	for _, t := range []explained{
		{"Why the exchange gives no token", "The label `outcome` of `lanyard_exchange_requests_total`, which is `granted` where there is a token, and the key `outcome` of the " +
			"audit line. The caller is told the status, an error and one of a few sentences, never the reason of a refused proof. With 503 and 429 the SDK comes again by itself.",
			"exchange/grant/reason.go", []string{"reason", "meaning", "answer", "what to do"}, grants()},
		{"Why a pod or a job gets no identity", "The label `reason` of `lanyard_exchange_judged_total`. What is refused stays refused. A Warning Event on the pod tells its owner what stands in the last column " +
			"of refused ones.", "exchange/provenance/reason.go", []string{"reason", "meaning", "outcome", "what to do"}, verdicts()},
		{"Why a row or a submission has ended", "The label `reason` of `lanyard_exchange_ended_total`, and the reason that records keep.",
			"delegation/reason.go", []string{"reason", "meaning", "what to do"}, endings()},
		{"Why a service lets a request not pass", "What `principal.ReasonOf` says of an error of `client/principal`, for the metrics and logs of services that use it. The exchange's own door for " +
			"gateways counts by the same words under the label `outcome` of `lanyard_exchange_callouts_total`, and by `allowed`, `row_ended`, `row_unknown`, `identity` and `store_unavailable` besides.",
			"client/principal/verify.go", []string{"reason", "meaning", "what to do"}, refusals()},
	} {
		if err := t.write(&b, root); err != nil {
			return nil, err
		}
	}
	return []byte(b.String()), nil
}

func (t explained) write(b *strings.Builder, root string) error {
	meanings, err := constantComments(filepath.Join(root, t.file), "Reason")
	if err != nil {
		return err
	}
	line := make([]string, len(t.head))
	for i := range line {
		line[i] = "---"
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n%s%s", t.title, t.intro, row(t.head...), row(line...))
	for _, r := range t.rows {
		if meanings[r.text] == "" || r.do == "" {
			return fmt.Errorf("%s: reason %s has no comment or no advice", t.file, r.text)
		}
		cells := []string{"`" + r.text + "`", cell(meanings[r.text])}
		if len(t.head) == 4 {
			cells = append(cells, r.extra)
		}
		b.WriteString(row(append(cells, cell(r.do))...))
	}
	return nil
}

// grants are the reasons of the token endpoint, with the status and the error that the caller gets.
func grants() []explanation {
	var out []explanation
	for _, r := range grant.Reasons() {
		refusal := grant.Refuse(r)
		out = append(out, explanation{string(r), strconv.Itoa(refusal.Status()) + " `" + string(refusal.Code) + "`", grantAdvice()[r]})
	}
	return out
}

// verdicts are the reasons of the judgement. What an owner is told is the advice; the rest is said here.
func verdicts() []explanation {
	var out []explanation
	for _, r := range provenance.Reasons() {
		var outcomes []string
		for _, o := range provenance.OutcomesOf(r) {
			outcomes = append(outcomes, "`"+string(o)+"`")
		}
		do := sentence(r.Message())
		if do == "" {
			do = verdictAdvice()[r]
		}
		out = append(out, explanation{string(r), strings.Join(outcomes, ", "), do})
	}
	return out
}

func endings() []explanation {
	var out []explanation
	for _, r := range delegation.Reasons() {
		out = append(out, explanation{string(r), "", endingAdvice()[r]})
	}
	return out
}

package main

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/spool"
)

// remedy says of a reason where to look first and what to do there.
type remedy struct{ who, do string }

// remedies are for whoever runs the connector and sees one of its reasons counted.
func remedies() map[nodebinding.Reason]remedy {
	const caller, operator = "the publisher", "whoever runs the cluster"
	return map[nodebinding.Reason]remedy{
		nodebinding.NodeMismatch: {caller, "Leave the node's name out; the connector fills it in. A monitor that must speak of other nodes belongs on " +
			"`crossNodeServiceAccounts`. If it must not, find out why its pod says so: this is what abuse looks like."},
		nodebinding.NodeClaimMismatch: {caller, "Find out how a token got to another node: a copied file, a shared volume, a socket that is reached over the network. " +
			"A publisher that is mended reads its own projected file. Treat it as abuse until it is explained."},
		nodebinding.UnboundCrossNodeToken: {caller, "Mount a projected token. One by `kubectl create token` without `--bound-object-ref`, or of a Secret, will not do."},
		nodebinding.CrossNodeClaimAbsent:  {"the cluster, or whoever asked for the token", "Use the token that the kubelet projects into the running pod. Before Kubernetes 1.32 tokens name no node."},
		nodebinding.TokenMissing: {caller, "Let admission project the token (`publishers`, or the label `lanyard.dev/role: publisher`), and send it. " +
			"Pods that are older than the rule must be made anew."},
		nodebinding.UnboundToken:    {caller, "As for `unbound_cross_node_token`."},
		nodebinding.NodeClaimAbsent: {"the cluster, or whoever asked for the token", "As for `cross_node_claim_absent`."},
		nodebinding.MissingNodeName: {caller, "A caller on the cross-node list must name the node in every event. If it means its own node alone, take it off the list."},
		nodebinding.TokenInvalid: {caller, "Compare the token's audience with `AuthAudience`. Otherwise the pod, its service account or the cluster's signing key is no longer what it was: " +
			"have the publisher read its file anew, or make the pod anew."},
		nodebinding.MalformedCredentials: {caller, "Send one header, `authorization: Bearer TOKEN`, without a second space or a line's end. Proxies that add a header of their own are the other cause."},
		nodebinding.ValidatorUnavailable: {operator, "Look at the API server and the way to it. Callers who are known go on. If `lanyard_connector_api_server_down` is 0, the connector's own limits were reached: `review.qps`, `review.concurrent`."},
		nodebinding.ValidatorTimeout:     {operator, "As for `validator_unavailable`; publishers with a deadline of less than `review.timeoutMilliseconds` give up first."},
		nodebinding.ValidatorError:       {operator, "Read the connector's log: it names a missing right (create `tokenreviews`), a refused request, or a review without an identity."},
		nodebinding.NodeUIDMismatch:      {"the cluster", "Nothing, if it passes: after a node was made anew its pods' tokens are replaced. If it stays, the pod is a relic of the old node; delete it."},
		nodebinding.PodNotLive:           {caller, "Nothing, if a pod was just deleted. A steady count is a process that outlived its pod, or a token that was taken along: find out which."},
		nodebinding.TokenExpired:         {caller, "Read the token's file before each call; the kubelet replaces it. If the file itself is old, look at the kubelet and at the node's clock."},
		nodebinding.RateLimited:          {caller, "Find the refusals that came before it from the same caller (`token_invalid`, `token_expired`). Publishers retry it."},
		nodebinding.PublisherNotListed:   {operator, "Add the account to `connector.deployment.publishers` if it is a publisher. If it is not, ask why it has a token of this audience."},
	}
}

// connectorReasons explains why a batch of events breaks the node-binding rule, and what the sinks and the spool count.
func connectorReasons(root string) ([]byte, error) {
	meanings, err := constantComments(filepath.Join(root, "connector/nodebinding/reason.go"), "Reason")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("\n## Why the connector refuses a batch\n\nThe label `reason` of `platform_connector_auth_violations_total`. In mode audit " +
		"what breaks a rule is counted and let through, but for `missing_node_name`. " +
		"The connector's log and `/debug/violations` name the caller; see [operations.md](../operations.md#who-was-it).\n\n")
	b.WriteString(row("reason", "meaning", "whose reason", "who is to blame", "what to do") + row("---", "---", "---", "---", "---"))
	for _, r := range nodebinding.Reasons() {
		what, ok := remedies()[r]
		if meanings[string(r)] == "" || !ok {
			return nil, fmt.Errorf("reason %s has no comment or no remedy", r)
		}
		whose := "NVSentinel's"
		if r.Ours() {
			whose = "Lanyard's"
		}
		b.WriteString(row("`"+string(r)+"`", cell(meanings[string(r)]), whose, what.who, cell(what.do)))
	}
	if err := deliveryReasons(&b, root); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// deliveryReasons explains what becomes of batches that were accepted.
func deliveryReasons(b *bytes.Buffer, root string) error {
	for _, t := range []struct {
		title, intro, file, typeName string
		texts                        []string
	}{
		{"Why a delivery goes wrong", "The label `outcome` of `lanyard_connector_sink_deliveries_total`, which is `ok` for those that went well. All but the last three " +
			"pass by themselves or when somebody mends something; with a spool the batch waits meanwhile.", "connector/sink/error.go", "Reason", texts(sink.Reasons())},
		{"What becomes of an event in a sink", "The label `outcome` of `lanyard_connector_sink_events_total`. An outcome that begins with `refused` is about an event that " +
			"this sink will not take; the other sinks still get it.", "connector/sink/outcome.go", "Outcome", texts(sink.Outcomes())},
		{"Why a record of the spool is put aside", "The label `reason` of `lanyard_connector_spool_quarantined_total`.",
			"connector/spool/hooks.go", "Reason", texts(spool.Reasons())},
	} {
		meanings, err := constantComments(filepath.Join(root, t.file), t.typeName)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\n## %s\n\n%s\n\n%s%s", t.title, t.intro, row("text", "meaning"), row("---", "---"))
		for _, text := range t.texts {
			if meanings[text] == "" {
				return fmt.Errorf("%s: %s has no comment", t.file, text)
			}
			b.WriteString(row("`"+text+"`", cell(meanings[text])))
		}
	}
	return nil
}

func texts[T ~string](typed []T) []string {
	out := make([]string, 0, len(typed))
	for _, t := range typed {
		out = append(out, string(t))
	}
	return out
}

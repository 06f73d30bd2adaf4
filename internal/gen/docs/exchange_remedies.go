package main

import (
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// grantAdvice says, for every reason of the token endpoint, what can be done about it.
func grantAdvice() map[grant.Reason]string {
	const client = "Mend the client: the request is not as the platform's SDK makes it. See [exchange.md](../exchange.md#with-curl)."
	return map[grant.Reason]string{
		grant.Disabled:                 "Set `enabled: true`, or take `NMP_WORKLOAD_IDENTITY_TOKEN_FILE` from whoever asks.",
		grant.ContentType:              client,
		grant.QueryPresent:             client + " A subject token that stood in a URL stands in logs: make the pod anew.",
		grant.BodyTooLong:              client,
		grant.BodyMalformed:            client,
		grant.ParameterRepeated:        client,
		grant.GrantTypeMissing:         client,
		grant.GrantTypeUnsupported:     client,
		grant.ClientUnknown:            "Use the `workload_client_id` of the discovery document, and no client secret.",
		grant.SubjectTypeUnsupported:   client,
		grant.RequestedTypeUnsupported: client,
		grant.ActorPresent:             "Send the subject token alone.",
		grant.ResourcePresent:          "Name an `audience`.",
		grant.SubjectMissing:           "Look whether the file of `NMP_WORKLOAD_IDENTITY_TOKEN_FILE` is empty.",
		grant.SubjectTooLong:           "Send the content of that file and nothing else.",
		grant.AudienceDenied:           "Ask for one of `audiences`, or for none; or add it.",
		grant.ProofMalformed:           "Send the projected token as it stands in its file, with type `urn:ietf:params:oauth:token-type:jwt`.",
		grant.ReviewRejected: "Find out who asks. The token's audience is another, its time is over, or its pod, account or cluster is gone. " +
			"A job that reads its file each time is not refused so.",
		grant.ReviewUnavailable: "Look at the API server and at the way to it. Clients come again by themselves.",
		grant.ReviewerRefused:   "Read the log: the exchange's account lacks the right to create `tokenreviews`, which the chart gives, or an authenticator of the API server names no user.",
		grant.RateLimited:       "Find the refusals from the same address that came before. If all callers are good ones, raise `review` and `limits`.",
		grant.Unbound:           "Use the token that the kubelet projects. One by `kubectl create token` without a pod will not do.",
		grant.SubjectExpired:    "Read the file before each exchange. If the file itself is old, look at the kubelet and the clocks.",
		grant.SubjectExpiring:   "Nothing: the kubelet is about to replace the token, and the SDK comes again.",
		grant.HashMismatch:      "Find out who asks: the proof is not the one that was handed out.",
		grant.StoreUnavailable:  "See [runbook LanyardExchangeStoreDown](../runbooks.md#lanyardexchangestoredown).",
		grant.RowAbsent: "Nothing, if it passes within seconds. If it stays, nobody judges, or judging waits: " +
			"see [troubleshooting.md](../troubleshooting.md#exchange).",
		grant.RowMismatch:        "Tell us: the row's name is made from what it is compared with.",
		grant.NodeMismatch:       "Find out how the token came to another node.",
		grant.RowRevoked:         "Look at the Event on the pod, or at the record's `reason`. It is final; create the work again if it should run.",
		grant.RowPending:         "Nothing: the workload is being started.",
		grant.RowExpired:         "Find out why the row was not renewed: nobody judged, or `reconcile.hardCapSeconds` was reached.",
		grant.RowExpiring:        "As for `row_expired`.",
		grant.SubmissionRevoked:  "Ask the platform team. It is final; the work has to be created again by somebody who may.",
		grant.AudienceNotGranted: "Create the work again after the audience was added to `audiences`, or ask for another.",
		grant.SubmitterReserved:  "Have a person submit, or list the account under `allowedSubmitterServiceAccounts`.",
		grant.IdentityInvalid:    "Give the person a username of at most 512 visible characters.",
		grant.KeyUnavailable:     "See [runbook LanyardExchangeKeyMissing](../runbooks.md#lanyardexchangekeymissing).",
	}
}

// verdictAdvice is about the reasons that are nobody's fault.
func verdictAdvice() map[provenance.Reason]string {
	return map[provenance.Reason]string{
		provenance.PodEnded:   "Nothing.",
		provenance.PodGone:    "Nothing.",
		provenance.GuardsDown: "See [runbook LanyardPoliciesDrift](../runbooks.md#lanyardpoliciesdrift).",
		provenance.Suspended:  "Resume the work.",
		provenance.NotRead:    "Nothing: it is read and judged again.",
		provenance.NotManaged: "Label the namespace `lanyard.dev/jobs=managed` before the work is created, if it should be.",
		provenance.OptedOut:   "Remove the label `lanyard.dev/role: none` from the pod template, if the work should have an identity.",
	}
}

// endingAdvice says what follows from an end.
func endingAdvice() map[delegation.Reason]string {
	const over = "Nothing."
	return map[delegation.Reason]string{
		delegation.PodEnded:          over,
		delegation.PodGone:           over,
		delegation.ContainerEnded:    over,
		delegation.StartFailed:       "Look at the container's own log.",
		delegation.WorkFinished:      over,
		delegation.WorkGone:          over,
		delegation.MaxAge:            "Create the work again, or raise `reconcile.hardCapSeconds`.",
		delegation.PodRefused:        "Read the Event on the pod.",
		delegation.RowRevoked:        "Ask who revoked it; the audit line of the admins' listener says.",
		delegation.SubmissionRevoked: "As for `row_revoked`. The work has to be created again.",
		delegation.SubmitterRevoked:  "As for `row_revoked`. Work that is created from now on is judged anew: take the person's rights away first.",
		delegation.Restored:          "Create the work again; see [upgrade.md](../upgrade.md#restore-a-database).",
	}
}

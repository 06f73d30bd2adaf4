package ledger

import (
	"strings"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// The columns, in the order in which records.go reads and writes them.
const (
	submissionColumns = `uid, group_kind, cluster, namespace, name, submitter, via_uid, audiences, scopes, state, confirmed_at, closed_at, revoked_at, reason, observed_generation, observed_since`
	rowColumns        = `name, kind, submission, bound_reference_name, bound_reference_value, namespace, service_account, node_name, proof_hash, state, rev, created_at, expires_at, revoked_at, reason`
)

// Reading.
const (
	getStanding = `SELECT d.name, d.kind, d.submission, d.bound_reference_name, d.bound_reference_value, d.namespace, d.service_account,
 d.node_name, d.proof_hash, d.state, d.rev, d.created_at, d.expires_at, d.revoked_at, d.reason,
 s.uid, s.group_kind, s.cluster, s.namespace, s.name, s.submitter, s.via_uid, s.audiences, s.scopes, s.state, s.confirmed_at, s.closed_at, s.revoked_at, s.reason,
 s.observed_generation, s.observed_since, g.lineage, g.ended
 FROM delegation d LEFT JOIN submission s ON s.uid = d.submission LEFT JOIN guard g ON g.id = 1 WHERE d.name = $1`
	getSubmission   = `SELECT ` + submissionColumns + ` FROM submission WHERE uid = $1`
	getRow          = `SELECT ` + rowColumns + ` FROM delegation WHERE name = $1`
	listSubmissions = `SELECT ` + submissionColumns + ` FROM submission
 WHERE uid > $1 AND ($2 = '' OR state = $2) AND ($3 = '' OR submitter = $3) ORDER BY uid LIMIT $4`
	listRows = `SELECT ` + rowColumns + ` FROM delegation
 WHERE name > $1 AND ($2 = '' OR kind = $2) AND ($3 = '' OR state = $3) AND ($4 = '' OR submission = $4) ORDER BY name LIMIT $5`
	getGuard = `SELECT epoch, policies, lineage, ended FROM guard WHERE id = 1`
)

// Writing. An insertion that finds the key taken does nothing, and is seen to have done nothing.
const (
	addSubmission = `INSERT INTO submission (` + submissionColumns + `)
 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT (uid) DO NOTHING`
	setSubmission = `UPDATE submission SET submitter = $2, state = $3, closed_at = $4, revoked_at = $5, reason = $6 WHERE uid = $1`
	setObserved   = `UPDATE submission SET observed_generation = $2, observed_since = $3 WHERE uid = $1`
	addRow        = `INSERT INTO delegation (` + rowColumns + `)
 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT (name) DO NOTHING`
	setRow = `UPDATE delegation SET bound_reference_name = $3, bound_reference_value = $4, node_name = $5, state = $6, rev = rev + 1,
 expires_at = $7, revoked_at = $8, reason = $9 WHERE name = $1 AND rev = $2`
	revokeRowsOf = `UPDATE delegation SET state = 'REVOKED', rev = rev + 1, reason = $2, revoked_at = $3
 WHERE submission = $1 AND state <> 'REVOKED' RETURNING name`
	submissionsOf = `SELECT ` + submissionColumns + ` FROM submission WHERE submitter = $1 AND revoked_at IS NULL ORDER BY uid`
	setGuard      = `UPDATE guard SET epoch = $1, policies = $2, lineage = $3, ended = $4 WHERE id = 1`
	bumpMark      = `UPDATE guard SET ended = ended + 1 WHERE id = 1 RETURNING lineage, ended`

	closeEvery  = `UPDATE submission SET state = 'CLOSED', closed_at = $1, revoked_at = $1, reason = $2 WHERE state = 'CONFIRMED'`
	revokeEvery = `UPDATE delegation SET state = 'REVOKED', rev = rev + 1, revoked_at = $1, reason = $2 WHERE state <> 'REVOKED' RETURNING name`
)

// Collecting.
func collectRows() string {
	return `DELETE FROM delegation WHERE name IN (SELECT d.name FROM delegation d LEFT JOIN submission s ON s.uid = d.submission
 WHERE d.state = 'REVOKED' AND d.revoked_at < $1 AND (d.reason IN (` + lasting() + `) OR s.uid IS NULL OR s.state = 'CLOSED') ORDER BY d.revoked_at LIMIT $2)
 RETURNING bound_reference_value, reason`
}

const eraseSubmitters = `UPDATE submission SET submitter = '' WHERE uid IN (SELECT s.uid FROM submission s
 WHERE s.state = 'CLOSED' AND s.closed_at < $1 AND s.submitter <> ''
 AND NOT EXISTS (SELECT 1 FROM delegation d WHERE d.submission = s.uid AND d.state <> 'REVOKED') ORDER BY s.closed_at LIMIT $2)`

func collectSubmissions() string {
	return `DELETE FROM submission WHERE uid IN (SELECT s.uid FROM submission s
 WHERE s.state = 'CLOSED' AND s.closed_at < $1 AND s.reason IN (` + lasting() + `)
 AND NOT EXISTS (SELECT 1 FROM delegation d WHERE d.submission = s.uid) ORDER BY s.closed_at LIMIT $2)`
}

// lasting is the list of the reasons that outlive their records, as SQL.
func lasting() string {
	var quoted []string
	for _, r := range delegation.Reasons() {
		if r.Lasting() {
			quoted = append(quoted, "'"+string(r)+"'")
		}
	}
	return strings.Join(quoted, ", ")
}

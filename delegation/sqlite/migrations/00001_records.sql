-- +goose Up
CREATE TABLE submission (
  uid          TEXT PRIMARY KEY CHECK (uid <> ''),
  group_kind   TEXT NOT NULL CHECK (group_kind <> ''),
  cluster      TEXT NOT NULL,
  namespace    TEXT NOT NULL,
  name         TEXT NOT NULL,
  submitter    TEXT NOT NULL, -- empty once it is erased
  via_uid      TEXT NOT NULL,
  audiences    TEXT NOT NULL, -- a JSON array
  scopes       TEXT NOT NULL, -- a JSON array
  state        TEXT NOT NULL CHECK (state IN ('CONFIRMED', 'CLOSED')),
  confirmed_at INTEGER NOT NULL, -- times are milliseconds since 1970
  closed_at    INTEGER CHECK ((closed_at IS NOT NULL) = (state = 'CLOSED')),
  revoked_at   INTEGER CHECK (revoked_at IS NULL OR state = 'CLOSED'),
  reason       TEXT NOT NULL CHECK ((reason <> '') = (state = 'CLOSED')),
  CHECK (submitter <> '' OR state = 'CLOSED')
) STRICT;
CREATE INDEX submission_submitter ON submission (submitter) WHERE revoked_at IS NULL;
CREATE INDEX submission_closed ON submission (closed_at) WHERE state = 'CLOSED';

CREATE TABLE delegation (
  name                  TEXT PRIMARY KEY CHECK (name <> ''),
  kind                  TEXT NOT NULL CHECK (kind IN ('k8s-pod', 'docker')),
  submission            TEXT REFERENCES submission (uid) CHECK (submission IS NOT NULL OR state = 'REVOKED'),
  bound_reference_name  TEXT NOT NULL,
  bound_reference_value TEXT NOT NULL,
  namespace             TEXT NOT NULL,
  service_account       TEXT NOT NULL,
  node_name             TEXT NOT NULL,
  proof_hash            TEXT NOT NULL CHECK ((proof_hash <> '') = (kind = 'docker')),
  state                 TEXT NOT NULL CHECK (state IN ('PENDING', 'ACTIVE', 'REVOKED')),
  rev                   INTEGER NOT NULL,
  created_at            INTEGER NOT NULL,
  expires_at            INTEGER NOT NULL CHECK (expires_at > created_at),
  revoked_at            INTEGER CHECK ((revoked_at IS NOT NULL) = (state = 'REVOKED')),
  reason                TEXT NOT NULL CHECK ((reason <> '') = (state = 'REVOKED'))
) STRICT;
CREATE INDEX delegation_submission ON delegation (submission);
CREATE INDEX delegation_revoked ON delegation (revoked_at) WHERE state = 'REVOKED';

CREATE TABLE guard (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  epoch    INTEGER,
  policies TEXT NOT NULL, -- a JSON object
  lineage  TEXT NOT NULL,
  ended    INTEGER NOT NULL
) STRICT;
INSERT INTO guard (id, epoch, policies, lineage, ended) VALUES (1, NULL, 'null', lower(hex(randomblob(16))), 0);

-- The program never does it; whoever reaches the file with another tool shall not do it by mistake either.
-- +goose StatementBegin
CREATE TRIGGER revocation_is_final BEFORE UPDATE ON delegation WHEN old.state = 'REVOKED'
BEGIN
  SELECT RAISE(ABORT, 'a revoked row is final');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER closing_is_final BEFORE UPDATE ON submission
WHEN old.state = 'CLOSED' AND new.state <> 'CLOSED' OR old.revoked_at IS NOT NULL AND new.revoked_at IS NOT old.revoked_at
BEGIN
  SELECT RAISE(ABORT, 'a closed submission is final');
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE delegation;
DROP TABLE submission;
DROP TABLE guard;

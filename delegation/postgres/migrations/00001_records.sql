-- +goose Up
-- Names are compared by their bytes, so that pages follow each other the same way whatever the database's collation is.
CREATE TABLE submission (
  uid          text COLLATE "C" PRIMARY KEY CHECK (uid <> ''),
  group_kind   text NOT NULL CHECK (group_kind <> ''),
  cluster      text NOT NULL,
  namespace    text NOT NULL,
  name         text NOT NULL,
  submitter    text COLLATE "C" NOT NULL, -- empty once it is erased
  via_uid      text NOT NULL,
  audiences    text NOT NULL, -- a JSON array
  scopes       text NOT NULL, -- a JSON array
  state        text NOT NULL CHECK (state IN ('CONFIRMED', 'CLOSED')),
  confirmed_at bigint NOT NULL, -- times are milliseconds since 1970
  closed_at    bigint CHECK ((closed_at IS NOT NULL) = (state = 'CLOSED')),
  revoked_at   bigint CHECK (revoked_at IS NULL OR state = 'CLOSED'),
  reason       text NOT NULL CHECK ((reason <> '') = (state = 'CLOSED')),
  CHECK (submitter <> '' OR state = 'CLOSED')
);
CREATE INDEX submission_submitter ON submission (submitter) WHERE revoked_at IS NULL;
CREATE INDEX submission_closed ON submission (closed_at) WHERE state = 'CLOSED';

CREATE TABLE delegation (
  name                  text COLLATE "C" PRIMARY KEY CHECK (name <> ''),
  kind                  text NOT NULL CHECK (kind IN ('k8s-pod', 'docker')),
  submission            text COLLATE "C" REFERENCES submission (uid) CHECK (submission IS NOT NULL OR state = 'REVOKED'),
  bound_reference_name  text NOT NULL,
  bound_reference_value text NOT NULL,
  namespace             text NOT NULL,
  service_account       text NOT NULL,
  node_name             text NOT NULL,
  proof_hash            text NOT NULL CHECK ((proof_hash <> '') = (kind = 'docker')),
  state                 text NOT NULL CHECK (state IN ('PENDING', 'ACTIVE', 'REVOKED')),
  rev                   bigint NOT NULL,
  created_at            bigint NOT NULL,
  expires_at            bigint NOT NULL CHECK (expires_at > created_at),
  revoked_at            bigint CHECK ((revoked_at IS NOT NULL) = (state = 'REVOKED')),
  reason                text NOT NULL CHECK ((reason <> '') = (state = 'REVOKED'))
);
CREATE INDEX delegation_submission ON delegation (submission);
CREATE INDEX delegation_revoked ON delegation (revoked_at) WHERE state = 'REVOKED';

CREATE TABLE guard (
  id       smallint PRIMARY KEY CHECK (id = 1),
  epoch    bigint,
  policies text NOT NULL, -- a JSON object
  lineage  text NOT NULL,
  ended    bigint NOT NULL
);
INSERT INTO guard (id, epoch, policies, lineage, ended) VALUES (1, NULL, 'null', gen_random_uuid()::text, 0);

-- The program never does it; whoever reaches the tables with another tool shall not do it by mistake either.
-- +goose StatementBegin
CREATE FUNCTION revocation_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'what was revoked or closed is final' USING ERRCODE = 'integrity_constraint_violation';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER revocation_is_final BEFORE UPDATE ON delegation FOR EACH ROW
  WHEN (old.state = 'REVOKED') EXECUTE FUNCTION revocation_is_final();
CREATE TRIGGER closing_is_final BEFORE UPDATE ON submission FOR EACH ROW
  WHEN (old.state = 'CLOSED' AND new.state <> 'CLOSED' OR old.revoked_at IS NOT NULL AND new.revoked_at IS DISTINCT FROM old.revoked_at)
  EXECUTE FUNCTION revocation_is_final();

-- +goose Down
DROP TABLE delegation;
DROP TABLE submission;
DROP TABLE guard;
DROP FUNCTION revocation_is_final();

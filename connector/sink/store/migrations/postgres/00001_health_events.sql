-- One row for each event of an accepted batch, with the publisher as the token's review has named it.
-- Instants are microseconds since 1970; event is the event itself in protobuf's encoding, with what this schema does not know.

-- +goose Up
CREATE TABLE health_events (
  id                 BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  received_at        BIGINT  NOT NULL,
  publisher          TEXT    NOT NULL,
  publisher_pod      TEXT    NOT NULL,
  publisher_pod_uid  TEXT    NOT NULL,
  publisher_node     TEXT    NOT NULL,
  publisher_node_uid TEXT    NOT NULL,
  credential_id      TEXT    NOT NULL,
  scope              TEXT    NOT NULL,
  degraded           BOOLEAN NOT NULL,
  idempotency_key    TEXT    NOT NULL,
  event_index        BIGINT  NOT NULL,
  node_name          TEXT    NOT NULL,
  agent              TEXT    NOT NULL,
  component_class    TEXT    NOT NULL,
  check_name         TEXT    NOT NULL,
  is_fatal           BOOLEAN NOT NULL,
  is_healthy         BOOLEAN NOT NULL,
  message            TEXT    NOT NULL,
  recommended_action BIGINT  NOT NULL,
  strategy           BIGINT  NOT NULL,
  generated_at       BIGINT,
  event_id           TEXT    NOT NULL,
  event              BYTEA   NOT NULL
);
-- Without a verified pod a key is worth nothing: anybody could take another's.
CREATE UNIQUE INDEX health_events_once ON health_events (publisher_pod_uid, idempotency_key, event_index)
  WHERE publisher_pod_uid <> '' AND idempotency_key <> '';
CREATE INDEX health_events_received ON health_events (received_at);
CREATE INDEX health_events_node ON health_events (node_name, received_at);

-- +goose Down
DROP TABLE health_events;

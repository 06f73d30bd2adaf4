-- +goose Up
-- The generation of a submission's object, and since when the policies had guarded it when that was seen.
ALTER TABLE submission
  ADD COLUMN observed_generation bigint NOT NULL DEFAULT 0 CHECK (observed_generation >= 0),
  ADD COLUMN observed_since bigint,
  ADD CHECK (observed_since IS NOT NULL OR observed_generation = 0);

-- +goose Down
ALTER TABLE submission DROP COLUMN observed_since, DROP COLUMN observed_generation;

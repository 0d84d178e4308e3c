-- Instances that start together take turns: for one of two, IF NOT EXISTS alone may fail.
SELECT pg_advisory_xact_lock(hashtext('outbox'));

-- The outbox table of a service. A record is open while `processed_at` is NULL.
CREATE TABLE IF NOT EXISTS outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text NOT NULL,
    payload      bytea NOT NULL,
    headers      json,
    processed_at timestamptz
);

-- Neither the start nor a count of the backlog reads a processed row.
CREATE INDEX IF NOT EXISTS outbox_open ON outbox (name, id) WHERE processed_at IS NULL;

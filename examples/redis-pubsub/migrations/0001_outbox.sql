-- A message and its state: the record is open while `processed_at` is NULL.
CREATE TABLE outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text NOT NULL,
    payload      bytea NOT NULL,
    headers      text,
    processed_at timestamptz,
    -- Of this service, not of the outbox: when a handler was first about to run.
    taken_at     timestamptz
);

-- The open records of a name: neither the start nor a count of them reads a processed row.
CREATE INDEX outbox_open ON outbox (name, id) WHERE processed_at IS NULL;

-- Instances that start together take turns: for one of two, IF NOT EXISTS alone may fail.
SELECT pg_advisory_xact_lock(hashtext('outbox'));

-- The outbox table of a service that deletes processed records: every record is open. An id is
-- never given twice, since a message whose record is absent counts as processed.
CREATE TABLE IF NOT EXISTS outbox (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name    text NOT NULL,
    payload bytea NOT NULL,
    headers json
);

-- The start reads the records of one name by their ids.
CREATE INDEX IF NOT EXISTS outbox_open ON outbox (name, id);

-- The outbox table of a service. A record is open while `processed_at` is NULL.
CREATE TABLE IF NOT EXISTS outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT NOT NULL,
    payload      BLOB NOT NULL,
    headers      TEXT,
    processed_at TEXT
);

-- Neither the start nor a count of the backlog reads a processed row.
CREATE INDEX IF NOT EXISTS outbox_open ON outbox (name, id) WHERE processed_at IS NULL;

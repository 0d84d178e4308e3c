-- A message and its state: the record is open while `processed_at` is NULL.
CREATE TABLE outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT NOT NULL,
    payload      BLOB NOT NULL,
    headers      TEXT,
    processed_at TEXT
);

-- The open records of a name: neither the start nor a count of them reads a processed row.
CREATE INDEX outbox_open ON outbox (name, id) WHERE processed_at IS NULL;

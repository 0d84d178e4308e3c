-- The outbox table of a service that deletes processed records: every record is open. An id is
-- never given twice, since a message whose record is absent counts as processed.
CREATE TABLE IF NOT EXISTS outbox (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    name    TEXT NOT NULL,
    payload BLOB NOT NULL,
    headers TEXT
);

-- The start reads the records of one name by their ids.
CREATE INDEX IF NOT EXISTS outbox_open ON outbox (name, id);

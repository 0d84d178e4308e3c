-- What was shipped. An order is shipped once, however often its message comes.
CREATE TABLE shipped (
    shop  TEXT NOT NULL,
    id    INTEGER NOT NULL,
    PRIMARY KEY (shop, id)
);

-- What became of each order. The first word stands.
CREATE TABLE orders (
    shop    text NOT NULL,
    id      bigint NOT NULL,
    outcome text NOT NULL,
    PRIMARY KEY (shop, id)
);

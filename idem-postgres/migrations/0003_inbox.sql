-- One row per event that a consumer has taken. A row is written once and never updated: pages are filled to the brim, and
-- what autovacuum has to do is clean up after the sweep.
CREATE TABLE {inbox} (
    consumer text COLLATE "C" NOT NULL CHECK (octet_length(consumer) BETWEEN 1 AND 255),
    event text COLLATE "C" NOT NULL CHECK (octet_length(event) BETWEEN 1 AND 255),
    received_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (consumer, event),
    CHECK (isfinite(received_at) AND isfinite(expires_at))
) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 1
);

-- Postgres chooses the index's name, since one with a suffix of ours might not fit.
CREATE INDEX ON {inbox} (expires_at);

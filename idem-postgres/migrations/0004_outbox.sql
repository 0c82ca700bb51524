-- Messages on their way. A row is written once, claimed and marked a time or two, and deleted: vacuum has to follow closely,
-- and some room on each page keeps what is updated near.
CREATE TABLE {outbox} (
    id uuid PRIMARY KEY,
    -- The order of adding, for messages of one order key. Never a cursor: a lower number may be committed later.
    seq bigint GENERATED ALWAYS AS IDENTITY,
    operation uuid,
    topic text COLLATE "C" NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
    order_key text COLLATE "C" CHECK (octet_length(order_key) BETWEEN 1 AND 255),
    content_type text COLLATE "C" NOT NULL CHECK (octet_length(content_type) BETWEEN 1 AND 255),
    headers bytea NOT NULL,
    payload bytea NOT NULL CHECK (octet_length(payload) <= 1048576),
    created_at timestamptz NOT NULL,
    -- When it may be claimed: at once, when a lease is over, or when it is to be tried again.
    due_at timestamptz NOT NULL,
    -- Which claim holds it, or held it last and never said what became of it.
    token uuid,
    tries int NOT NULL DEFAULT 0 CHECK (tries >= 0),
    published_at timestamptz,
    expires_at timestamptz,
    parked_at timestamptz,
    error text CHECK (octet_length(error) <= 1024),
    CHECK (isfinite(created_at) AND isfinite(due_at) AND isfinite(published_at) AND isfinite(expires_at)),
    CHECK ((published_at IS NULL) = (expires_at IS NULL)),
    CHECK (published_at IS NULL OR parked_at IS NULL),
    CHECK (token IS NULL OR (published_at IS NULL AND parked_at IS NULL))
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

-- Postgres chooses the names, since one with a suffix of ours might not fit. What is published is in none of them but the
-- last, so looking for what is due never walks past it.
CREATE INDEX ON {outbox} (due_at, seq) WHERE published_at IS NULL AND parked_at IS NULL;
CREATE INDEX ON {outbox} (order_key, seq) WHERE published_at IS NULL AND order_key IS NOT NULL;
CREATE INDEX ON {outbox} (created_at) WHERE published_at IS NULL AND parked_at IS NULL;
CREATE INDEX ON {outbox} (parked_at) WHERE parked_at IS NOT NULL;
CREATE INDEX ON {outbox} (expires_at) WHERE published_at IS NOT NULL;

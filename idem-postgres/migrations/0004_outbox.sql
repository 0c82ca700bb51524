-- Messages on their way. A row is taken (due_at, token, tries), then marked; what is published leaves the partial indexes, so
-- that looking for the next ones never walks past it.
CREATE TABLE {outbox} (
    id uuid PRIMARY KEY,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    operation uuid,
    topic text COLLATE "C" NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
    order_key text COLLATE "C" CHECK (octet_length(order_key) BETWEEN 1 AND 255),
    content_type text COLLATE "C" NOT NULL CHECK (octet_length(content_type) BETWEEN 1 AND 255),
    headers bytea NOT NULL,
    payload bytea NOT NULL CHECK (octet_length(payload) <= 1048576),
    created_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    token bigint NOT NULL DEFAULT 0 CHECK (token >= 0),
    tries int NOT NULL DEFAULT 0 CHECK (tries >= 0),
    published_at timestamptz,
    parked_at timestamptz,
    error text CHECK (octet_length(error) <= 1024),
    CHECK (published_at IS NULL OR parked_at IS NULL),
    CHECK (isfinite(created_at) AND isfinite(due_at))
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

-- Postgres chooses the indexes' names, since one with a suffix of ours might not fit.
CREATE INDEX ON {outbox} (seq) WHERE published_at IS NULL AND parked_at IS NULL;
CREATE INDEX ON {outbox} (order_key, seq) WHERE published_at IS NULL AND order_key IS NOT NULL;
CREATE INDEX ON {outbox} (published_at) WHERE published_at IS NOT NULL;

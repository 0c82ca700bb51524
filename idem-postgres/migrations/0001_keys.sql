-- One row per (scope, key). What changes per operation is in no index but expires_at, which the usual completion leaves
-- as the claim wrote it: so updates stay on their page (HOT), and the fillfactor leaves them room.
CREATE TABLE {table} (
    scope text COLLATE "C" NOT NULL CHECK (octet_length(scope) BETWEEN 1 AND 1024),
    key text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    operation uuid NOT NULL,
    attempt uuid NOT NULL,
    token bigint NOT NULL CHECK (token >= 1),
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 33),
    status text COLLATE "C" NOT NULL CHECK (status IN ('in_progress', 'completed', 'failed')),
    version bigint NOT NULL CHECK (version >= 1),
    checkpoint bigint NOT NULL CHECK (checkpoint >= 0),
    locked_at timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    rerun_until timestamptz NOT NULL,
    recovery_point text COLLATE "C",
    recovery_data bytea,
    response_code smallint,
    response_headers bytea,
    response_body bytea,
    created_at timestamptz NOT NULL,
    ended_at timestamptz,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (scope, key),
    CHECK ((status = 'in_progress') = (ended_at IS NULL)),
    CHECK ((recovery_point IS NULL) = (recovery_data IS NULL)),
    CHECK (recovery_point IS NULL OR checkpoint >= 1),
    CHECK (octet_length(recovery_point) BETWEEN 1 AND 255 AND octet_length(recovery_data) <= 1048576),
    CHECK (isfinite(locked_at) AND isfinite(lease_until) AND isfinite(created_at) AND isfinite(expires_at)),
    CHECK (isfinite(ended_at)),
    CHECK (num_nulls(response_code, response_headers, response_body) = CASE status WHEN 'completed' THEN 0 ELSE 3 END),
    CHECK (response_code BETWEEN 200 AND 599),
    CHECK (status <> 'failed' OR rerun_until = 'infinity')
) WITH (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

CREATE INDEX {index} ON {table} (expires_at);

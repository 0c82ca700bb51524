//! What one would write by hand for the happy path: no lease, no fence, no answer for a retry.

use async_trait::async_trait;
use idem::ClaimRequest;
use sqlx::PgPool;
use uuid::Uuid;

use crate::contest::{Columns, Contestant, answer};

const CLAIM: &str = "
    INSERT INTO by_hand (scope, key, operation, attempt, token, fingerprint, status, version, checkpoint,
        locked_at, lease_until, rerun_until, created_at, expires_at)
    VALUES ($1, $2, gen_random_uuid(), $3, 1, $4, 'in_progress', 1, 0,
        now(), now() + interval '10 minutes', 'infinity', now(), now() + interval '24 hours 10 minutes')
    ON CONFLICT (scope, key) DO NOTHING
    RETURNING operation, token";

const COMPLETE: &str = "
    UPDATE by_hand SET status = 'completed', response_code = $3, response_headers = $4, response_body = $5,
        ended_at = now(), version = version + 1
    WHERE scope = $1 AND key = $2";

/// An equal table: the same columns, checks, indexes and settings.
const TABLE: &str = "
    CREATE TABLE by_hand (LIKE idempotency_key INCLUDING ALL);
    DO $$
    DECLARE settings text[] := (SELECT reloptions FROM pg_class WHERE oid = 'idempotency_key'::regclass);
    BEGIN
        IF settings IS NOT NULL THEN
            EXECUTE format('ALTER TABLE by_hand SET (%s)', array_to_string(settings, ', '));
        END IF;
    END $$";

#[derive(Debug)]
pub(crate) struct ByHand {
    pool: PgPool,
    answer: Columns,
}

impl ByHand {
    pub(crate) async fn new(pool: &PgPool) -> Self {
        sqlx::raw_sql(TABLE).execute(pool).await.expect("an equal table");
        Self { pool: pool.clone(), answer: Columns::of(&answer()) }
    }
}

#[async_trait]
impl Contestant for ByHand {
    fn name(&self) -> &'static str {
        "INSERT and UPDATE by hand"
    }

    async fn operation(&self, request: &ClaimRequest) {
        let (scope, key) = (request.id.scope().as_str(), request.id.key().as_str());
        let claimed: Option<(Uuid, i64)> = sqlx::query_as(CLAIM)
            .bind(scope)
            .bind(key)
            .bind(Uuid::from_bytes(request.attempt.to_bytes()))
            .bind(request.fingerprints.current().to_bytes().as_slice())
            .fetch_optional(&self.pool)
            .await
            .expect("a claim");
        assert!(claimed.is_some(), "a fresh key");
        let ended = sqlx::query(COMPLETE)
            .bind(scope)
            .bind(key)
            .bind(self.answer.code)
            .bind(&self.answer.headers)
            .bind(&self.answer.body)
            .execute(&self.pool)
            .await
            .expect("an end");
        assert_eq!(ended.rows_affected(), 1);
    }
}

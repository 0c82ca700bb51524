//! What one would write by hand: no order, no back-off, nothing parked, and a relay that locks no one out.

use async_trait::async_trait;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{BATCH, Way};

/// An equal table: the same columns, checks, indexes and settings.
const TABLE: &str = "
    CREATE TABLE by_hand (LIKE idempotency_key_outbox INCLUDING ALL);
    DO $$
    DECLARE settings text[] := (SELECT reloptions FROM pg_class WHERE oid = 'idempotency_key_outbox'::regclass);
    BEGIN
        EXECUTE format('ALTER TABLE by_hand SET (%s)', array_to_string(settings, ', '));
    END $$";

const ADD_ONE: &str = "
    INSERT INTO by_hand (id, topic, content_type, headers, payload, created_at, due_at)
    VALUES ($1, $2, $3, $4, $5, now(), now())";

const ADD_MANY: &str = "
    INSERT INTO by_hand (id, topic, content_type, headers, payload, created_at, due_at)
    SELECT *, now(), now() FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::bytea[])";

const TAKE: &str = "
    UPDATE by_hand SET due_at = now() + interval '1 minute', tries = tries + 1, token = $2
    WHERE id IN (SELECT id FROM by_hand
        WHERE published_at IS NULL AND parked_at IS NULL AND due_at <= now()
        ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED)
    RETURNING id, topic, content_type, headers, payload";

const MARK: &str = "
    UPDATE by_hand SET published_at = now(), expires_at = now() + interval '1 day', token = NULL
    WHERE id = ANY ($1) AND token = $2";

type Row = (Uuid, String, String, Vec<u8>, Vec<u8>);

pub(crate) struct ByHand(PgPool);

impl ByHand {
    pub(crate) async fn new(pool: &PgPool) -> Self {
        sqlx::raw_sql(TABLE).execute(pool).await.expect("an equal table");
        Self(pool.clone())
    }
}

#[async_trait]
impl Way for ByHand {
    async fn add(&self, messages: usize) {
        let mut tx = self.0.begin().await.expect("a transaction");
        sqlx::query("INSERT INTO note DEFAULT VALUES").execute(&mut *tx).await.expect("a row");
        let payload = || vec![b'x'; 200];
        let added = if messages == 1 {
            let query =
                sqlx::query(ADD_ONE).bind(Uuid::new_v4()).bind("order.charged").bind("application/json");
            query.bind(Vec::<u8>::new()).bind(payload()).execute(&mut *tx).await
        } else {
            let query = sqlx::query(ADD_MANY)
                .bind((0..messages).map(|_| Uuid::new_v4()).collect::<Vec<_>>())
                .bind(vec!["order.charged"; messages])
                .bind(vec!["application/json"; messages])
                .bind(vec![Vec::<u8>::new(); messages])
                .bind(vec![payload(); messages]);
            query.execute(&mut *tx).await
        };
        assert_eq!(added.expect("they are added").rows_affected(), messages as u64);
        tx.commit().await.expect("a commit");
    }

    async fn relay(&self) {
        let limit = i64::try_from(BATCH).expect("a batch");
        loop {
            let token = Uuid::new_v4();
            let rows: Vec<Row> =
                sqlx::query_as(TAKE).bind(limit).bind(token).fetch_all(&self.0).await.expect("a batch");
            if rows.is_empty() {
                return;
            }
            let ids: Vec<_> = rows.into_iter().map(|(id, ..)| id).collect();
            sqlx::query(MARK).bind(ids).bind(token).execute(&self.0).await.expect("a mark");
        }
    }
}

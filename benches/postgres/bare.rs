//! The store's own statements, word for word, sent by sqlx alone.

use async_trait::async_trait;
use idem::{ClaimRequest, PostgresStore};
use sqlx::{AssertSqlSafe, PgPool, Row as _, SqlSafeStr as _, SqlStr};
use uuid::Uuid;

use crate::contest::{Columns, Contestant, LEASE, RETENTION, answer};

#[derive(Debug)]
pub(crate) struct Bare {
    pool: PgPool,
    claim: SqlStr,
    complete: SqlStr,
    answer: Columns,
}

impl Bare {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        let statements = store.statements();
        let text = |wanted| {
            let found = statements.iter().find(|(name, _)| *name == wanted);
            AssertSqlSafe(found.expect("a statement of this name").1.clone()).into_sql_str()
        };
        Self {
            pool: store.pool().clone(),
            claim: text("claim"),
            complete: text("complete"),
            answer: Columns::of(&answer()),
        }
    }
}

#[async_trait]
impl Contestant for Bare {
    fn name(&self) -> &'static str {
        "its own statements, bare"
    }

    async fn operation(&self, request: &ClaimRequest) {
        let (scope, key) = (request.id.scope().as_str(), request.id.key().as_str());
        let fingerprint = request.fingerprints.current().to_bytes();
        let (lease, retention) = (LEASE.as_micros(), RETENTION.as_micros());
        let claimed = sqlx::query(self.claim.clone())
            .bind(scope)
            .bind(key)
            .bind(Uuid::from_bytes(request.attempt.to_bytes()))
            .bind(fingerprint.as_slice())
            .bind([fingerprint.as_slice()])
            .bind(i64::try_from(lease).expect("a lease"))
            .bind(i64::try_from(retention).expect("a retention"))
            .bind("1000ms")
            .fetch_one(&self.pool)
            .await
            .expect("a claim");
        assert_eq!(claimed.get::<&str, _>("judged"), "new", "a fresh key");
        let ended = sqlx::query(self.complete.clone())
            .bind(scope)
            .bind(key)
            .bind(claimed.get::<Uuid, _>("operation"))
            .bind(claimed.get::<i64, _>("token"))
            .bind("1000ms")
            .bind(self.answer.code)
            .bind(&self.answer.headers)
            .bind(&self.answer.body)
            .bind(i64::try_from(retention).expect("a retention"))
            .fetch_one(&self.pool)
            .await
            .expect("an end");
        assert_eq!(ended.get::<&str, _>("verdict"), "written");
    }
}

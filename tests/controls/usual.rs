//! The two handlers that are written most often: look first, then insert; and the claim inside the request's transaction.
use sqlx::{PgPool, PgTransaction};
use tokio::sync::Barrier;

use crate::gateway::Gateway;

const TABLE: &str = "
    CREATE TABLE usual_key (
        key           text        NOT NULL,
        user_id       bigint      NOT NULL,
        request_hash  text        NOT NULL,
        status        text        NOT NULL CHECK (status IN ('in_progress','completed','failed')),
        response_code int,
        response_body jsonb,
        locked_at     timestamptz NOT NULL DEFAULT now(),
        expires_at    timestamptz NOT NULL DEFAULT now() + interval '24 hours',
        PRIMARY KEY (user_id, key)
    )";

/// What a client sees of a handler: its status, or the error behind a 500.
pub(crate) type Told = Result<u16, sqlx::Error>;

pub(crate) async fn migrate(pool: &PgPool) {
    sqlx::raw_sql(TABLE).execute(pool).await.expect("an empty database takes the table");
}

/// "Here is the implementation almost everyone writes first": it asks whether the row exists, then creates it.
///
/// `both_looked` makes the interleaving certain: both requests have seen no row before either inserts one.
pub(crate) async fn select_first(pool: &PgPool, gateway: &Gateway, both_looked: &Barrier) -> Told {
    let mut tx = pool.begin().await?;
    let row: Option<(String,)> =
        sqlx::query_as("SELECT status FROM usual_key WHERE user_id = 7 AND key = 'a3f7b9d1' FOR UPDATE")
            .fetch_optional(&mut *tx)
            .await?;
    if let Some((status,)) = row {
        return Ok(replay_or_conflict(&status));
    }
    both_looked.wait().await;
    sqlx::query(
        "INSERT INTO usual_key (user_id, key, request_hash, status) VALUES (7, 'a3f7b9d1', 'hash', 'in_progress')",
    )
    .execute(&mut *tx)
    .await?;
    charge_and_commit(tx, gateway).await
}

/// The insert-first claim, but inside the request's transaction: "an ORM session or a dependency that commits at the end".
pub(crate) async fn claim_inside(pool: &PgPool, gateway: &Gateway) -> Told {
    let mut tx = pool.begin().await?;
    let claimed = sqlx::query(
        "INSERT INTO usual_key (user_id, key, request_hash, status) VALUES (7, 'a3f7b9d1', 'hash', 'in_progress')
         ON CONFLICT (user_id, key) DO NOTHING RETURNING key",
    )
    .fetch_optional(&mut *tx)
    .await?;
    if claimed.is_none() {
        let (status,): (String,) =
            sqlx::query_as("SELECT status FROM usual_key WHERE user_id = 7 AND key = 'a3f7b9d1' FOR UPDATE")
                .fetch_one(&mut *tx)
                .await?;
        return Ok(replay_or_conflict(&status));
    }
    charge_and_commit(tx, gateway).await
}

async fn charge_and_commit(mut tx: PgTransaction<'_>, gateway: &Gateway) -> Told {
    gateway.charge(None).await;
    sqlx::query(
        "UPDATE usual_key SET status = 'completed', response_code = 201, response_body = '\"created\"'
         WHERE user_id = 7 AND key = 'a3f7b9d1'",
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(201)
}

fn replay_or_conflict(status: &str) -> u16 {
    if status == "completed" { 201 } else { 409 }
}

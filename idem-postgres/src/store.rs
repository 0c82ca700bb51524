//! The store: `KeyStore` over one pool.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use async_trait::async_trait;
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, KeyStore, RecoveryPoint, Rerun, StoreError, StoreErrorKind,
    StoredResponse,
    state::{check_renewal, check_span},
};
use sqlx::{
    Connection as _, SqlStr,
    postgres::{PgPool, PgPoolOptions},
};
use uuid::Uuid;

use crate::{
    call::{ATTEMPTS, Bound, Call},
    claim,
    error::connecting,
    inbox::Inbox,
    outbox::Outbox,
    row::{Columns, bigint, micros},
    settings::Settings,
    sql::Sql,
};

/// How long a connection of a pool of ours may lie idle and still be used untested.
const TESTED_AFTER: Duration = Duration::from_secs(1);

/// Keys in a Postgres table; clones share the pool.
///
/// # Cancel safety
///
/// A dropped call may still happen. Its connection is closed, not returned, so that it cannot hold up another call.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) pool: PgPool,
    pub(crate) settings: Settings,
    pub(crate) sql: Arc<Sql>,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    /// Which of its tables a sweep begins with.
    pub(crate) turn: Arc<AtomicUsize>,
}

impl PostgresStore {
    /// A store over a pool of yours, with the default [`Settings`].
    pub fn new(pool: PgPool) -> Self {
        Self::with(pool, Settings::new())
    }

    /// A store over a pool of yours.
    pub fn with(pool: PgPool, settings: Settings) -> Self {
        let sql = Arc::new(Sql::of(&settings.qualified()));
        let (inbox, outbox) = (Inbox::of(&settings), Outbox::of(&settings));
        Self { pool, settings, sql, inbox, outbox, turn: Arc::default() }
    }

    /// A store with a pool of its own, of at most 32 connections. One that lay idle for a second is tested before it is
    /// used; a busier one is not, and if it broke meanwhile that costs an unknown outcome, which is settled by sending
    /// the call again.
    ///
    /// # Errors
    /// `Unavailable` if no connection can be made; `Invalid` if the URL is none, or names a user or a database that the
    /// server refuses.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(32)
            .acquire_timeout(Duration::from_secs(5))
            .test_before_acquire(false)
            // After a restart of the server every idle connection is dead, and each would cost a call one attempt.
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for >= TESTED_AFTER {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect(url)
            .await
            .map_err(connecting)?;
        Ok(Self::new(pool))
    }

    /// The pool, for statements of your own.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// The name and the text of every statement, for measuring and preparing them by hand. No stable interface.
    #[doc(hidden)]
    pub fn statements(&self) -> Vec<(&'static str, String)> {
        let all = self.sql.each().into_iter().chain(self.inbox.statements()).chain(self.outbox.statements());
        all.map(|(name, text)| (name, text.to_owned())).collect()
    }

    /// A fenced write, answered by its own verdict; no row means that the fence is not current.
    async fn write<'q>(
        &self,
        operation: &'static str,
        sql: &SqlStr,
        bind: impl Fn(Bound<'q>) -> Bound<'q> + Send + Sync,
    ) -> Result<(), StoreError> {
        let call = Call::start(self, operation);
        for _ in 0..ATTEMPTS {
            let rows = call.answer(sql, &bind).await?;
            let Some(row) = rows.first() else {
                return Err(StoreError::new(StoreErrorKind::ClaimLost, operation));
            };
            match (operation, Columns::of(row, operation).value::<&str>("verdict")?) {
                (_, "written" | "same") | ("complete", "completed") | ("release", "failed") => return Ok(()),
                (_, "too_late") => return Err(StoreError::new(StoreErrorKind::TooLate, operation)),
                (_, "used") => {
                    return Err(StoreError::new(StoreErrorKind::Invalid, operation)
                        .because("its number is already used"));
                }
                (_, "open") => {
                    return Err(
                        StoreError::new(StoreErrorKind::Invalid, operation).because("an effect is open")
                    );
                }
                (_, "lost" | "completed" | "failed") => {
                    return Err(StoreError::new(StoreErrorKind::ClaimLost, operation));
                }
                // The row changed while the statement waited for it.
                (_, "in_progress") => tokio::task::yield_now().await,
                _ => return Err(Columns::of(row, operation).corrupt("no state of ours")),
            }
        }
        Err(StoreError::new(StoreErrorKind::Unavailable, operation)
            .because("the row changed under every attempt"))
    }

    pub(crate) async fn resolved<'q>(
        &self,
        bind: impl Fn(Bound<'q>) -> Bound<'q> + Send + Sync,
    ) -> Result<(), StoreError> {
        self.write("resolve", &self.sql.resolve, bind).await
    }
}

/// Binds what every fenced write shows, `$1` to `$4`, and the lock timeout, `$5`.
pub(crate) fn fenced<'q>(query: Bound<'q>, claim: &Claim, lock_timeout: &str) -> Bound<'q> {
    query
        .bind(claim.id().scope().as_str().to_owned())
        .bind(claim.id().key().as_str().to_owned())
        .bind(Uuid::from_bytes(claim.fence().operation.to_bytes()))
        .bind(bigint(claim.fence().token))
        .bind(lock_timeout.to_owned())
}

/// Binds what a checkpoint writes, `$6` to `$10`.
pub(crate) fn checkpointed<'q>(query: Bound<'q>, point: &RecoveryPoint, rerun: Rerun) -> Bound<'q> {
    let (name, window) = match rerun {
        Rerun::Always => ("always", Duration::ZERO),
        Rerun::Until(window) => ("until", window),
        Rerun::Never => ("never", Duration::ZERO),
        Rerun::Again => ("again", Duration::ZERO),
        Rerun::Keep => ("keep", Duration::ZERO),
    };
    query
        .bind(bigint(point.checkpoint()))
        .bind(point.name().to_owned())
        .bind(point.data().to_vec())
        .bind(name)
        .bind(micros(window))
}

/// Binds what an end with an answer writes, `$6` to `$9`.
pub(crate) fn completed<'q>(query: Bound<'q>, response: &StoredResponse, retention: Duration) -> Bound<'q> {
    query
        .bind(i16::try_from(response.status()).unwrap_or(i16::MAX))
        .bind(response.encode_headers().to_vec())
        .bind(response.body().to_vec())
        .bind(micros(retention))
}

#[async_trait]
impl KeyStore for PostgresStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        claim::claim(self, request).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError> {
        check_renewal(lease)?;
        let wait = self.settings.lock_timeout_for((!lease.is_zero()).then_some(lease));
        self.write("renew", &self.sql.renew, |query| fenced(query, claim, &wait).bind(micros(lease))).await
    }

    async fn checkpoint(&self, claim: &Claim, point: &RecoveryPoint, rerun: Rerun) -> Result<(), StoreError> {
        if let Rerun::Until(window) = rerun {
            check_span("checkpoint", "window", window)?;
        }
        let wait = self.settings.lock_timeout_for(None);
        self.write("checkpoint", &self.sql.checkpoint, |query| {
            checkpointed(fenced(query, claim, &wait), point, rerun)
        })
        .await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> Result<(), StoreError> {
        check_span("complete", "retention", retention)?;
        let wait = self.settings.lock_timeout_for(None);
        self.write("complete", &self.sql.complete, |query| {
            completed(fenced(query, claim, &wait), response, retention)
        })
        .await
    }

    async fn release(&self, claim: &Claim, retention: Duration) -> Result<(), StoreError> {
        check_span("release", "retention", retention)?;
        let wait = self.settings.lock_timeout_for(None);
        self.write("release", &self.sql.release, |query| fenced(query, claim, &wait).bind(micros(retention)))
            .await
    }

    async fn ended(&self, _claim: &Claim) {}
}

/// Shows where the table is, nothing of the server's address.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("table", &self.settings.qualified()).finish_non_exhaustive()
    }
}

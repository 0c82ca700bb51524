//! The store.

use std::time::Duration;

use async_trait::async_trait;
use idem::{Claim, ClaimOutcome, ClaimRequest, KeyStore as _, PostgresStore, StoredResponse};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::contest::{Contestant, RETENTION, answer};

#[derive(Debug)]
pub(crate) struct Ours {
    store: PostgresStore,
    answer: StoredResponse,
}

/// A pool as [`PostgresStore::connect`] makes one, with its connections open.
pub(crate) async fn pool(options: PgConnectOptions, connections: usize) -> PgPool {
    let connections = u32::try_from(connections).expect("a few");
    PgPoolOptions::new()
        .max_connections(connections)
        .min_connections(connections)
        .acquire_timeout(Duration::from_secs(5))
        .test_before_acquire(false)
        .connect_with(options)
        .await
        .expect("a pool")
}

impl Ours {
    /// Makes the table.
    pub(crate) async fn new(pool: &PgPool) -> Self {
        let store = PostgresStore::new(pool.clone());
        store.migrate().await.expect("a table");
        Self { store, answer: answer() }
    }

    pub(crate) fn store(&self) -> &PostgresStore {
        &self.store
    }
}

#[async_trait]
impl Contestant for Ours {
    fn name(&self) -> &'static str {
        "the store"
    }

    async fn operation(&self, request: &ClaimRequest) {
        let claim = claim(&self.store, request).await;
        self.store.complete(&claim, &self.answer, RETENTION).await.expect("an end");
    }
}

/// Claims a fresh key.
pub(crate) async fn claim(store: &PostgresStore, request: &ClaimRequest) -> Claim {
    match store.claim(request).await.expect("a claim") {
        ClaimOutcome::Claimed(claim) => claim,
        other @ (ClaimOutcome::Completed(_)
        | ClaimOutcome::InProgress { .. }
        | ClaimOutcome::InDoubt { .. }
        | ClaimOutcome::Mismatch) => panic!("a fresh key was answered with {other:?}"),
    }
}

//! The inbox.

use idem_conformance::{async_trait, parts::deliveries::Deliveries};
use idem_core::BoxError;

use crate::Shop;

#[async_trait]
impl Deliveries for Shop {
    async fn deliver(&self, consumer: &str, event: &str, fails: bool) -> Result<bool, BoxError> {
        let mut tx = self.store.pool().begin().await?;
        let first = self.store.inbox().once(&mut tx, consumer, event).await?;
        if first {
            sqlx::query("INSERT INTO item DEFAULT VALUES").execute(&mut *tx).await?;
        }
        if fails {
            tx.rollback().await?;
            return Err("the effect failed".into());
        }
        tx.commit().await?;
        Ok(first)
    }

    async fn effects(&self) -> u64 {
        self.count().await
    }
}

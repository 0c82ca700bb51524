//! Postgres has all the parts that the suite judges.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test's helpers fail like the test itself")]

mod deliveries;
mod messages;
mod phases;
#[expect(dead_code, reason = "the other tests use the rest of it")]
#[path = "../store/rig.rs"]
mod rig;

use std::{sync::Arc, time::Duration};

use idem_conformance::{Harness, async_trait};
use idem_core::Maintain;
use idem_postgres::{PostgresStore, Settings};
use idem_test_support::{Proxy, postgres};
use rig::{Rig, pool_to};
use sqlx::PgPool;

/// A store behind a proxy, with a table of an application's.
struct Shop {
    rig: Rig,
    proxy: Proxy,
    store: PostgresStore,
}

#[async_trait]
impl Harness for Shop {
    async fn start() -> Self {
        let rig = Rig::new().await;
        rig.sql("CREATE TABLE item (id bigserial PRIMARY KEY)").await;
        let proxy = Proxy::to(postgres().addr()).await;
        let store = open(pool_to(proxy.options(&rig.database), 20), Settings::new());
        Self { rig, proxy, store }
    }

    fn store(&self) -> Arc<dyn Maintain> {
        Arc::new(self.store.clone())
    }

    async fn second(&self) -> Arc<dyn Maintain> {
        Arc::new(self.rig.another(4))
    }

    async fn elapse(&self, by: Duration) {
        self.rig.elapse(by).await;
        let sql = "UPDATE idempotency_key_outbox SET created_at = created_at - d, due_at = due_at - d,
            published_at = published_at - d, expires_at = expires_at - d, parked_at = parked_at - d
            FROM (SELECT $1 * interval '1 microsecond') AS by (d)";
        let micros = i64::try_from(by.as_micros()).expect("a test's span");
        sqlx::query(sql).bind(micros).execute(&self.rig.direct).await.expect("rows move");
    }
}

impl Shop {
    async fn count(&self) -> u64 {
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM item").fetch_one(&self.rig.direct).await.unwrap();
        count.unsigned_abs()
    }
}

idem_conformance::phases!(Shop);
idem_conformance::deliveries!(Shop);
idem_conformance::messages!(Shop);

/// The store that the rig puts on its database.
fn open(pool: PgPool, settings: Settings) -> PostgresStore {
    PostgresStore::with(pool, settings)
}

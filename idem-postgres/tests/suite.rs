//! Postgres passes the suite.

mod rig;

use std::{sync::Arc, time::Duration};

use idem_conformance::Harness;
use idem_core::Maintain;
use rig::Rig;

struct Postgres(Rig);

#[idem_conformance::async_trait]
impl Harness for Postgres {
    async fn start() -> Self {
        Self(Rig::new().await)
    }

    fn store(&self) -> Arc<dyn Maintain> {
        Arc::new(self.0.store.clone())
    }

    async fn second(&self) -> Arc<dyn Maintain> {
        Arc::new(self.0.another().await)
    }

    async fn emptied(self) -> Self {
        sqlx::query("DELETE FROM idempotency_key").execute(self.0.store.pool()).await.expect("rows go");
        self
    }

    async fn elapse(&self, by: Duration) {
        self.0.elapse(by).await;
    }
}

idem_conformance::suite!(Postgres);

#[test]
fn n04_postgres_goes_in_step_with_the_state_functions() {
    println!("{}", idem_conformance::lockstep::run::<Postgres>(60, 40));
}

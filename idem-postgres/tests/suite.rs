//! Postgres passes the suite, goes in step with the state functions, and its histories are explained.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod rig;

use std::{sync::Arc, time::Duration};

use idem_conformance::{Harness, linear, lockstep};
use idem_core::Maintain;
use idem_postgres::PostgresStore;
use rig::Rig;
use tokio::sync::OnceCell;

struct Postgres {
    rig: Rig,
    /// Other connections, made when they are first asked for.
    second: OnceCell<PostgresStore>,
}

#[idem_conformance::async_trait]
impl Harness for Postgres {
    async fn start() -> Self {
        Self { rig: Rig::new().await, second: OnceCell::new() }
    }

    fn store(&self) -> Arc<dyn Maintain> {
        Arc::new(self.rig.store.clone())
    }

    async fn second(&self) -> Arc<dyn Maintain> {
        Arc::new(self.second.get_or_init(|| self.rig.another()).await.clone())
    }

    async fn emptied(self) -> Self {
        sqlx::query("DELETE FROM idempotency_key").execute(self.rig.store.pool()).await.expect("rows go");
        self
    }

    async fn elapse(&self, by: Duration) {
        self.rig.elapse(by).await;
    }
}

idem_conformance::suite!(Postgres);

#[test]
fn n04_postgres_goes_in_step_with_the_state_functions() {
    println!("{}", lockstep::run::<Postgres>(60, 40));
}

#[test]
fn s01_every_history_of_postgres_is_explained_by_an_order_of_its_calls() {
    let tally = linear::run::<Postgres>(50);
    println!("{tally}");
    for (call, answer) in [
        ("claim", "new"),
        ("claim", "taken over"),
        ("claim", "completed"),
        ("claim", "in progress"),
        ("complete", "ok"),
        ("overlap", "claim"),
        ("overlap", "complete"),
        ("overlap", "checkpoint"),
    ] {
        assert!(tally.of(call, answer) > 0, "no history came to {call}: {answer}\n{tally}");
    }
}

/// Postgres with a trigger that gives each new owner the token of the one before.
struct Forgetful(Postgres);

#[idem_conformance::async_trait]
impl Harness for Forgetful {
    async fn start() -> Self {
        let postgres = Postgres::start().await;
        let forget = "
            CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN NEW.token := OLD.token; RETURN NEW; END';
            CREATE TRIGGER forget BEFORE UPDATE ON idempotency_key
                FOR EACH ROW WHEN (NEW.token > OLD.token) EXECUTE FUNCTION forget()";
        sqlx::raw_sql(forget).execute(postgres.rig.store.pool()).await.expect("a trigger");
        Self(postgres)
    }

    fn store(&self) -> Arc<dyn Maintain> {
        self.0.store()
    }

    async fn second(&self) -> Arc<dyn Maintain> {
        self.0.second().await
    }

    async fn emptied(self) -> Self {
        Self(self.0.emptied().await)
    }

    async fn elapse(&self, by: Duration) {
        self.0.elapse(by).await;
    }
}

#[test]
fn n04_a_walk_shows_in_a_few_calls_that_a_postgres_forgets() {
    let Err(difference) = lockstep::check::<Forgetful>(0..60, 40) else { panic!("60 walks did not see it") };
    println!("{difference}");
    assert!(difference.calls() <= 8, "{difference}");
}

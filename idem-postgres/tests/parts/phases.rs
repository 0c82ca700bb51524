//! Phases and steps.

use idem_conformance::{
    async_trait,
    parts::phases::{Emitted, Phases, Play, Written},
};
use idem_core::{BoxError, Completed, Error, Operation, StoreError, StoreErrorKind};
use idem_postgres::{Message, MessageId};
use idem_test_support::Fault;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Shop;

fn message() -> Message {
    Message::new("row", "text/plain", "row").expect("a message")
}

async fn insert(connection: &mut PgConnection) -> u64 {
    let insert = "INSERT INTO item DEFAULT VALUES";
    sqlx::query(insert).execute(&mut *connection).await.expect("a row");
    let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM item").fetch_one(connection);
    count.await.expect("a number").unsigned_abs()
}

fn tell(emitted: &Emitted, id: MessageId) {
    emitted.tell(&id);
}

#[async_trait]
impl Phases for Shop {
    async fn phase(&self, operation: Operation, play: Play) -> Result<Completed, Error> {
        let mut phase = self.store.begin(operation).await?;
        play.meanwhile.await;
        insert(&mut phase).await;
        tell(&play.emitted, phase.emit(message()).await?);
        if play.gives_up {
            drop(phase);
            return Err(StoreError::new(StoreErrorKind::Unavailable, "phase").into());
        }
        phase.complete(Play::answer()).await
    }

    async fn step(&self, operation: &mut Operation, name: &'static str, play: Play) -> Result<u64, Error> {
        let step = self.store.step(operation, name, async |tx| {
            play.meanwhile.await;
            let rows = insert(tx).await;
            tell(&play.emitted, tx.emit(message()).await?);
            if play.gives_up { Err(BoxError::from("given up")) } else { Ok(rows) }
        });
        step.await
    }

    async fn written(&self) -> Written {
        let ids: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM idempotency_key_outbox ORDER BY seq")
            .fetch_all(&self.rig.direct)
            .await
            .expect("messages");
        Written { rows: self.count().await, messages: ids.iter().map(ToString::to_string).collect() }
    }

    async fn lose_commit(&self, happens: bool) {
        let fault = if happens { Fault::LoseReply } else { Fault::LoseRequest };
        drop(self.proxy.next(|sql| sql.trim() == "COMMIT", fault));
    }
}

//! Transactions that carry an operation, over a store of keys that has none.

use std::{sync::Arc, time::Duration};

use idem_conformance::{
    async_trait,
    parts::phases::{Emitted, Phases, Play, Written},
};
use idem_core::{
    Claim, Completed, Error, KeyStore as _, Maintain as _, Operation, RecoveryPoint, Rerun, State,
    StoreError, StoreErrorKind, StoredResponse, policy::RETENTION, transaction::Step,
};

use crate::{
    database::{Database, Flaw, HIDDEN, Row, VANISHED},
    trial::Toy,
};

/// What a transaction has written, to be committed or forgotten.
#[derive(Default)]
struct Pending {
    rows: u64,
    messages: Vec<Row>,
}

impl Database {
    /// The first statement: whether this owner still has the key.
    async fn fence(&self, claim: &Claim, flaw: Flaw) -> Result<(), StoreError> {
        let record = self.keys.find(claim.id()).await?;
        if self.has(Flaw::HandsOn) {
            self.keys.renew(claim, Duration::ZERO).await?;
        }
        let owns = record.is_some_and(|it| it.fence() == claim.fence() && it.state == State::InProgress);
        if owns || self.has(flaw) {
            return Ok(());
        }
        Err(StoreError::new(StoreErrorKind::ClaimLost, "begin"))
    }

    /// The work: a row and a message.
    async fn write(&self, claim: &Claim, step: &str, emitted: &Emitted) -> Pending {
        let mut tables = self.tables.lock().await;
        let number = tables.number();
        let step = if self.has(Flaw::IdsWithoutStep) { "" } else { step };
        let drawn = if self.has(Flaw::DrawnIds) { number } else { 0 };
        let id = format!("{} {step} {drawn}", claim.fence().operation);
        emitted.tell(&id);
        let message =
            Row { seq: number, id, payload: "row".to_owned(), key: None, published: false, taken: false };
        let mut pending = Pending { rows: 1, messages: vec![message] };
        if self.has(Flaw::MessageLost) {
            pending.messages.clear();
        }
        if self.has(Flaw::RowBeside) {
            tables.rows += std::mem::take(&mut pending.rows);
        }
        if self.has(Flaw::MessageBeside) {
            tables.messages.append(&mut pending.messages);
        }
        pending
    }

    /// The last write and the commit.
    async fn commit<F: Future<Output = Result<(), StoreError>> + Send>(
        &self,
        pending: Pending,
        unfenced: Flaw,
        record: F,
    ) -> Result<(), StoreError> {
        let fate = self.next_commit();
        let unknown = || match self.flaw {
            Some(Flaw::UnknownIsDone) => Ok(()),
            Some(Flaw::UnknownIsUndone) => Err(StoreError::new(StoreErrorKind::Unavailable, "commit")),
            Some(_) | None => Err(StoreError::new(StoreErrorKind::Unknown, "commit")),
        };
        if fate == VANISHED {
            return unknown();
        }
        let mut tables = self.tables.lock().await;
        if let Err(error) = record.await
            && !self.has(unfenced)
        {
            return Err(error);
        }
        tables.rows += pending.rows;
        tables.messages.extend(pending.messages);
        if fate == HIDDEN { unknown() } else { Ok(()) }
    }
}

#[async_trait]
impl Phases for Toy {
    async fn phase(&self, operation: Operation, play: Play) -> Result<Completed, Error> {
        let (database, carried) = (self.0.clone(), operation.join_transaction().await?);
        if let Err(error) = database.fence(carried.claim(), Flaw::NoFence).await {
            return Err(carried.failed(error));
        }
        let pending = database.write(carried.claim(), "", &play.emitted.clone()).await;
        play.meanwhile.await;
        if play.gives_up {
            return Err(carried.failed(StoreError::new(StoreErrorKind::Unavailable, "commit")));
        }
        let claim = Arc::clone(carried.claim());
        let commit = |kept: StoredResponse| async move {
            let keys = database.keys.clone();
            let end = async { keys.complete(&claim, &kept, RETENTION).await };
            database.commit(pending, Flaw::NoFence, end).await
        };
        carried.complete(Play::answer(), commit).await
    }

    async fn step(&self, operation: &mut Operation, name: &'static str, play: Play) -> Result<u64, Error> {
        let database = self.0.clone();
        let step = match operation.join_step::<u64>(name).await? {
            Step::Recorded(rows) => return Ok(rows),
            Step::Begun(step) => step,
        };
        if let Err(error) = database.fence(step.claim(), Flaw::FenceUnread).await {
            return Err(step.failed(error));
        }
        let mut pending = database.write(step.claim(), name, &play.emitted.clone()).await;
        if database.has(Flaw::StepBeside) {
            database.tables.lock().await.rows += std::mem::take(&mut pending.rows);
        }
        play.meanwhile.await;
        if play.gives_up {
            return Err(step.not_done("given up".into()));
        }
        let rows = database.tables.lock().await.rows + 1;
        let claim = Arc::clone(step.claim());
        let commit = |point: RecoveryPoint, rerun: Rerun| async move {
            let keys = database.keys.clone();
            let unrecorded = database.has(Flaw::StepUnrecorded);
            let note =
                async { if unrecorded { Ok(()) } else { keys.checkpoint(&claim, &point, rerun).await } };
            database.commit(pending, Flaw::FenceUnread, note).await
        };
        step.checkpoint(rows, commit).await
    }

    async fn written(&self) -> Written {
        let tables = self.0.tables.lock().await;
        Written { rows: tables.rows, messages: tables.messages.iter().map(|row| row.id.clone()).collect() }
    }

    async fn lose_commit(&self, happens: bool) {
        self.0.lose_commit(happens);
    }
}

//! A store of your own: everything it takes to keep keys in a database that knows versions and compare-and-swap.
//!
//! The decisions are not yours to write: `state::claim` and `state::write` take the record as it is and say what it
//! becomes and what to answer. A store loads, asks, swaps, and starts again where somebody was faster. The suite at the
//! end of the file judges it; run it with `cargo test --test custom_store`.

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use idem::{
    Answer, AttemptId, Claim, ClaimOutcome, ClaimRequest, Command, Decision, Engine, Fingerprint, KeyId,
    KeyStore, Maintain, Operation, OperationId, Policy, Record, RecoveryPoint, Rerun, Scope, StoreError,
    StoredResponse, Stuck, Transition, state,
};

/// Stands in for the database, and is all that this store asks of one.
#[derive(Debug, Default)]
struct Database {
    rows: HashMap<KeyId, (u64, Record)>,
    /// One counter for all rows, so that a row which is deleted and created again never shows an old revision.
    revision: u64,
}

impl Database {
    fn load(&self, id: &KeyId) -> Option<(u64, Record)> {
        self.rows.get(id).cloned()
    }

    /// Puts `new` in place, or deletes with `None`, if the row still has the revision `seen`.
    fn swap(&mut self, id: &KeyId, seen: Option<u64>, new: Option<Record>) -> bool {
        if self.rows.get(id).map(|(revision, _)| *revision) != seen {
            return false;
        }
        self.revision += 1;
        match new {
            Some(record) => drop(self.rows.insert(id.clone(), (self.revision, record))),
            None => drop(self.rows.remove(id)),
        }
        true
    }
}

/// Keys in that database; clones are further connections to it.
#[derive(Clone, Debug, Default)]
struct KvStore {
    database: Arc<Mutex<Database>>,
    /// How far the database's clock is ahead, so that a test can move it.
    ahead: Arc<Mutex<Duration>>,
}

impl KvStore {
    /// One call to the database. One over a network can fail: `Unavailable` if it certainly did not happen, else `Unknown`.
    fn call<T>(&self, call: impl FnOnce(&mut Database) -> T) -> T {
        call(&mut self.database.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The database's clock, one for all its users. Never the clock of the process that happens to ask.
    #[expect(clippy::disallowed_methods, reason = "this is the store's clock")]
    fn now(&self) -> SystemTime {
        SystemTime::now() + *self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one atomic step that every method is.
    fn step<T>(
        &self,
        id: &KeyId,
        decide: impl Fn(Option<&Record>, SystemTime) -> Transition<T>,
    ) -> Result<T, StoreError> {
        loop {
            let seen = self.call(|database| database.load(id));
            let transition = decide(seen.as_ref().map(|(_, record)| record), self.now());
            let Some(new) = transition.write else { return transition.answer };
            if self.call(|database| database.swap(id, seen.map(|(revision, _)| revision), Some(new))) {
                return transition.answer;
            }
        }
    }

    fn write(&self, id: &KeyId, command: &Command<'_>) -> Result<(), StoreError> {
        self.step(id, |record, now| state::write(record, command, now))
    }

    /// Every row, as it was at some moment; whoever acts on one has to compare its revision.
    fn scan(&self) -> Vec<(u64, Record)> {
        self.call(|database| database.rows.values().cloned().collect())
    }
}

#[async_trait]
impl KeyStore for KvStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        self.step(&request.id, |record, now| state::claim(record, request, now, OperationId::random()))
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError> {
        self.write(claim.id(), &Command::Renew(claim, lease))
    }

    async fn checkpoint(&self, claim: &Claim, point: &RecoveryPoint, rerun: Rerun) -> Result<(), StoreError> {
        self.write(claim.id(), &Command::Checkpoint(claim, point, rerun))
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> Result<(), StoreError> {
        self.write(claim.id(), &Command::Complete(claim, response, retention))
    }

    async fn release(&self, claim: &Claim, retention: Duration) -> Result<(), StoreError> {
        self.write(claim.id(), &Command::Release(claim, retention))
    }

    async fn ended(&self, _: &Claim) {} // a record of truth holds nothing besides the record
}

#[async_trait]
impl Maintain for KvStore {
    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        let (rows, now) = (self.scan(), self.now());
        let expired = rows.into_iter().filter(|(_, record)| record.is_expired(now)).take(limit as usize);
        // A row that was claimed since the scan has another revision and stays.
        let swept = expired
            .filter(|(seen, record)| self.call(|database| database.swap(&record.id, Some(*seen), None)));
        Ok(swept.count() as u64)
    }

    async fn stuck(&self, limit: u32) -> Result<Vec<Stuck>, StoreError> {
        let (rows, now) = (self.scan(), self.now());
        let stuck = rows.into_iter().map(|(_, record)| record).filter(|record| record.is_stuck(now));
        let mut stuck: Vec<_> = stuck
            .map(|record| Stuck {
                in_doubt: record.is_in_doubt(now),
                stuck_for: now.duration_since(record.lease_until).unwrap_or_default(),
                record,
            })
            .collect();
        stuck.sort_by_key(|stuck| stuck.record.lease_until);
        stuck.truncate(limit as usize);
        Ok(stuck)
    }

    async fn find(&self, id: &KeyId) -> Result<Option<Record>, StoreError> {
        Ok(self.call(|database| database.load(id)).map(|(_, record)| record))
    }

    async fn resolve(
        &self,
        seen: &Record,
        decision: &Decision,
        retention: Duration,
    ) -> Result<(), StoreError> {
        self.write(&seen.id, &Command::Resolve(seen, decision, retention, AttemptId::random()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::new(KvStore::default());
    let id = KeyId::new(Scope::new("tenant 7")?, "a3f7b9d1".parse()?);
    let same = Fingerprint::of("charge").json_body(br#"{"amount":1000}"#).finish();
    let work = async |op: Operation| op.complete(StoredResponse::new(201, "charged")?).await;

    let first = engine.run(id.clone(), same.clone(), &Policy::resumable(), work).await?;
    let again = engine.run(id, same, &Policy::resumable(), work).await?;

    let (Answer::Executed(first), Answer::Replayed(again)) = (first, again) else { panic!("it ran twice") };
    assert_eq!(first, again);
    Ok(())
}

/// What the suite wants to know: how to start a store, and how to let time pass without waiting for it.
#[cfg(test)]
mod judged {
    use super::*;

    struct Kv(KvStore);

    #[async_trait]
    impl idem::conformance::Harness for Kv {
        async fn start() -> Self {
            Self(KvStore::default())
        }

        fn store(&self) -> Arc<dyn Maintain> {
            Arc::new(self.0.clone())
        }

        async fn second(&self) -> Arc<dyn Maintain> {
            Arc::new(self.0.clone())
        }

        async fn elapse(&self, by: Duration) {
            *self.0.ahead.lock().unwrap() += by;
        }
    }

    idem::conformance::suite!(Kv);

    #[test]
    fn n04_goes_in_step_with_the_state_functions() {
        idem::conformance::lockstep::run::<Kv>(50, 60);
    }

    #[test]
    fn s01_every_history_is_explained_by_an_order_of_its_calls() {
        idem::conformance::linear::run::<Kv>(100);
    }
}

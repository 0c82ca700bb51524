//! A store one of whose calls reads first and writes later, with a gate in between: another call always gets in.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use idem_core::{
    AttemptId, ClaimRequest, Command, Decision, KeyStore, Maintain, OperationId, RecoveryPoint, StoreError,
    StoredResponse, Stuck, Transition, state,
};
use tokio::sync::Barrier;

use super::*;
use crate::{
    Call,
    linear::plan::{Act, Fault, Move, Whose},
};

/// One key. Two calls meet in it: each of the `wrong` kind has read, and none has written, while the other is made.
#[derive(Debug)]
struct Gated {
    row: Mutex<Option<Record>>,
    wrong: Option<Call>,
    read: Barrier,
    met: Barrier,
}

impl Gated {
    async fn step<A: Send>(
        &self,
        call: Call,
        decide: impl Fn(Option<&Record>) -> Transition<A> + Send + Sync,
    ) -> Result<A, StoreError> {
        if self.wrong == Some(call) {
            let step = decide(self.row().as_ref());
            self.read.wait().await;
            self.met.wait().await;
            if let Some(record) = step.write {
                *self.row() = Some(record);
            }
            return step.answer;
        }
        self.read.wait().await;
        let answer = {
            let mut row = self.row();
            let step = decide(row.as_ref());
            if let Some(record) = step.write {
                *row = Some(record);
            }
            step.answer
        };
        self.met.wait().await;
        answer
    }

    async fn write(&self, call: Call, command: Command<'_>) -> Result<(), StoreError> {
        self.step(call, |row| state::write(row, &command, now())).await
    }

    fn row(&self) -> std::sync::MutexGuard<'_, Option<Record>> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl KeyStore for Gated {
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        self.step(Call::Claim, |row| state::claim(row, request, now(), OperationId::random())).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<(), StoreError> {
        self.write(Call::Renew, Command::Renew(claim, lease)).await
    }

    async fn checkpoint(&self, claim: &Claim, point: &RecoveryPoint, rerun: Rerun) -> Result<(), StoreError> {
        self.write(Call::Checkpoint, Command::Checkpoint(claim, point, rerun)).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> Result<(), StoreError> {
        self.write(Call::Complete, Command::Complete(claim, response, retention)).await
    }

    async fn release(&self, claim: &Claim, retention: Duration) -> Result<(), StoreError> {
        self.write(Call::Release, Command::Release(claim, retention)).await
    }

    async fn ended(&self, _: &Claim) {}
}

#[async_trait]
impl Maintain for Gated {
    async fn sweep(&self, _: u32) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn stuck(&self, _: u32) -> Result<Vec<Stuck>, StoreError> {
        Ok(Vec::new())
    }

    async fn find(&self, _: &KeyId) -> Result<Option<Record>, StoreError> {
        Ok(self.row().clone())
    }

    async fn resolve(
        &self,
        seen: &Record,
        decision: &Decision,
        retention: Duration,
    ) -> Result<(), StoreError> {
        self.write(Call::Resolve, Command::Resolve(seen, decision, retention, AttemptId::random())).await
    }
}

/// Two calls meet; what became of them and whether that is explained.
async fn meet(
    before: &Key,
    owner: Option<&Arc<Claim>>,
    acts: [Act; 2],
    wrong: Option<Call>,
) -> Result<(), String> {
    let store: Arc<dyn Maintain> = Arc::new(Gated {
        row: Mutex::new(before.0.clone()),
        wrong,
        read: Barrier::new(2),
        met: Barrier::new(2),
    });
    let callers = acts.map(|act| vec![Move { act, fault: Fault::None, there: 0, back: 0 }]);
    let told = Told { claim: owner.cloned(), found: before.0.clone() };
    let (handles, id) = ([Arc::clone(&store), store], id());
    let played = play(&handles, &id, told, callers.into());
    let ops = timeout(PATIENCE, played).await.expect("both calls come to the gate");
    assert_eq!(ops.len(), 4, "two calls, and a look over each handle");
    explain(before.0.as_ref(), &ops, window())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s08_a_store_that_reads_first_and_writes_later_is_not_explained() {
    let (stale, owner) = Key::stale();
    let claim = || Act::Claim { body: "first" };
    let mine = Whose::Latest;
    for (before, owner, act, wrong, why) in [
        (Key::default(), None, claim(), Call::Claim, "two are told that a free key is theirs"),
        (stale.clone(), Some(&owner), claim(), Call::Claim, "two take it over"),
        (stale.clone(), Some(&owner), Act::Renew(mine, LEASE), Call::Renew, "a renewal undoes a takeover"),
        (
            stale.clone(),
            Some(&owner),
            Act::Checkpoint(mine, 1, Rerun::Never),
            Call::Checkpoint,
            "a mark undoes a takeover",
        ),
        (
            stale.clone(),
            Some(&owner),
            Act::Complete(mine, RETENTION),
            Call::Complete,
            "an end undoes a takeover",
        ),
        (stale.clone(), Some(&owner), Act::Release(mine), Call::Release, "a release undoes a takeover"),
        (
            stale.clone(),
            Some(&owner),
            Act::Complete(mine, RETENTION),
            Call::Claim,
            "a takeover undoes an end",
        ),
    ] {
        let acts = || [act.clone(), claim()];
        assert_eq!(meet(&before, owner, acts(), None).await, Ok(()), "without the fault: {why}");
        let shown = meet(&before, owner, acts(), Some(wrong)).await;
        assert!(shown.is_err_and(|shown| shown.contains("explains the most")), "{why}");
    }
}

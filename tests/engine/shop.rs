//! A shop over memory: a step, a charge, and an end; each of its waits can be counted, and panics where it is told to.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use idem::{
    Answer, Claim, ClaimOutcome, ClaimRequest, Completed, Effect, Engine, Finding, KeyStore, MemoryStore,
    Operation, Reconciler, RecoveryPoint, Rerun, StoreError, StoredResponse,
    policy::{PROVIDER_MAX_DELAY, RETENTION},
    transaction::Step,
};

use crate::{
    gateway::{KEYED, ONCE},
    rig::{LEASE, Ran, Result, Rig, resumable},
};

/// Every call of the store, of the provider and of a commit waits before it has happened and after.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    seen: Arc<AtomicUsize>,
    panics_at: usize,
}

impl Waits {
    async fn pass(&self) {
        tokio::task::yield_now().await;
        let seen = self.seen.fetch_add(1, Ordering::SeqCst);
        assert_ne!(seen, self.panics_at, "it was told to");
    }
}

/// How the work ends its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Call,
    Transaction,
}

/// The kinds of effects, and the ways to end.
pub(crate) fn each_kind() -> impl Iterator<Item = (Effect, End)> {
    let kinds = [Effect::natural(), KEYED, ONCE];
    kinds.into_iter().flat_map(|effect| [End::Call, End::Transaction].map(|end| (effect, end)))
}

#[derive(Debug, Default)]
struct Books {
    drafts: AtomicUsize,
    orders: AtomicUsize,
    /// The key of each charge.
    charges: Mutex<Vec<String>>,
}

#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) rig: Rig,
    pub(crate) engine: Engine,
    pub(crate) effect: Effect,
    end: End,
    waits: Waits,
    books: Arc<Books>,
}

impl Shop {
    pub(crate) fn new(effect: Effect, end: End) -> Self {
        Self::that_panics_at(usize::MAX, effect, end)
    }

    /// One whose wait of this number panics.
    pub(crate) fn that_panics_at(wait: usize, effect: Effect, end: End) -> Self {
        let (rig, waits) = (Rig::new(), Waits { seen: Arc::default(), panics_at: wait });
        let store = Waiting { store: rig.store.clone(), waits: waits.clone() };
        Self { rig, engine: Engine::new(store), effect, end, waits, books: Arc::default() }
    }

    pub(crate) async fn run(&self) -> Ran {
        let shop = self.clone();
        self.rig.run_on(&self.engine, resumable(), async move |op| shop.work(op).await).await
    }

    /// What may be broken off anywhere.
    pub(crate) async fn work(self, mut op: Operation) -> Result<Completed> {
        let _draft: usize = self.draft(&mut op).await?;
        let call = async |key: idem::ProviderKey| {
            self.waits.pass().await;
            let charge = self.charge(key.hex());
            self.waits.pass().await;
            Ok(charge)
        };
        let charge: usize = op.effect("charge", self.effect, call).await?;
        let receipt = StoredResponse::json(201, &charge)?;
        match self.end {
            End::Call => Ok(op.complete(receipt).await?),
            End::Transaction => self.order(op, receipt).await,
        }
    }

    async fn draft(&self, op: &mut Operation) -> Result<usize> {
        let step = match op.join_step("drafted").await? {
            Step::Recorded(draft) => return Ok(draft),
            Step::Begun(step) => step,
        };
        self.waits.pass().await;
        let (shop, claim) = (self.clone(), Arc::clone(step.claim()));
        let commit = move |point: RecoveryPoint, rerun: Rerun| async move {
            shop.waits.pass().await;
            shop.rig.store.checkpoint(&claim, &point, rerun).await?;
            shop.books.drafts.fetch_add(1, Ordering::SeqCst);
            shop.waits.pass().await;
            Ok(())
        };
        Ok(step.checkpoint(1, commit).await?)
    }

    async fn order(&self, op: Operation, receipt: StoredResponse) -> Result<Completed> {
        let tx = op.join_transaction().await?;
        self.waits.pass().await;
        let (shop, claim) = (self.clone(), Arc::clone(tx.claim()));
        let commit = move |kept: StoredResponse| async move {
            shop.waits.pass().await;
            shop.rig.store.complete(&claim, &kept, RETENTION).await?;
            shop.books.orders.fetch_add(1, Ordering::SeqCst);
            shop.waits.pass().await;
            Ok(())
        };
        Ok(tx.complete(receipt, commit).await?)
    }

    /// The number of the charge: where the provider is told a key that it knows, of the one that was made.
    fn charge(&self, key: String) -> usize {
        let mut charges = self.books.charges.lock().expect("no panic inside");
        if self.effect == KEYED
            && let Some(known) = charges.iter().position(|known| *known == key)
        {
            return known + 1;
        }
        charges.push(key);
        charges.len()
    }

    pub(crate) fn charges(&self) -> usize {
        self.books.charges.lock().expect("no panic inside").len()
    }

    pub(crate) fn waits(&self) -> usize {
        self.waits.seen.load(Ordering::SeqCst)
    }

    /// Another process goes on once the lease is over, and what is there then is counted. Returns whether it was in doubt.
    pub(crate) async fn settle(&self, told: &Ran, point: &str) -> bool {
        // Whatever goes on in tasks of its own comes to its end meanwhile.
        self.rig.elapse(LEASE).await;
        let shop = Self { engine: self.rig.other(), waits: self.unbroken(), ..self.clone() };
        let in_doubt = matches!(shop.run().await, Ok(Answer::InDoubt { .. }));
        if in_doubt {
            assert_eq!(self.effect, ONCE, "{point}");
            self.look_up(point).await;
        }
        let (first, again) = (shop.run().await, shop.run().await);
        let (Ok(Answer::Executed(first) | Answer::Replayed(first)), Ok(Answer::Replayed(again))) =
            (&first, &again)
        else {
            panic!("{point}: {first:?}, {again:?}");
        };
        assert_eq!(first, again, "{point}");
        if let Ok(Answer::Executed(told)) = told {
            assert_eq!(told, first, "{point}: what was told is what is there");
        }
        let most = if self.effect == Effect::natural() { 2 } else { 1 };
        assert!((1..=most).contains(&self.charges()), "{point}: {} charges", self.charges());
        assert_eq!(self.books.drafts.load(Ordering::SeqCst), 1, "{point}: a step is done once");
        let orders = usize::from(self.end == End::Transaction);
        assert_eq!(self.books.orders.load(Ordering::SeqCst), orders, "{point}: an order is there once");
        assert_eq!(self.engine.drain(Duration::from_secs(1)).await, 0, "{point}: nothing is left running");
        in_doubt
    }

    async fn look_up(&self, point: &str) {
        let charges = self.charges();
        let found = if charges == 0 { Finding::DidNotHappen } else { Finding::Happened(charges) };
        let look = move |_| std::future::ready(Ok(found.clone()));
        self.rig.clock.advance(PROVIDER_MAX_DELAY);
        let report = Reconciler::new(self.rig.store.clone()).look_up("charge", look).pass().await;
        assert_eq!(report.expect("memory answers").settled, 1, "{point}");
    }

    fn unbroken(&self) -> Waits {
        Waits { panics_at: usize::MAX, ..self.waits.clone() }
    }
}

#[derive(Debug)]
struct Waiting {
    store: MemoryStore,
    waits: Waits,
}

impl Waiting {
    async fn wait<T>(&self, call: impl Future<Output = T> + Send) -> T {
        self.waits.pass().await;
        let told = call.await;
        self.waits.pass().await;
        told
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl KeyStore for Waiting {
    async fn claim(&self, request: &ClaimRequest) -> std::result::Result<ClaimOutcome, StoreError> {
        self.wait(self.store.claim(request)).await
    }
    async fn renew(&self, claim: &Claim, lease: Duration) -> std::result::Result<(), StoreError> {
        self.wait(self.store.renew(claim, lease)).await
    }
    async fn checkpoint(
        &self,
        claim: &Claim,
        point: &RecoveryPoint,
        rerun: Rerun,
    ) -> std::result::Result<(), StoreError> {
        self.wait(self.store.checkpoint(claim, point, rerun)).await
    }
    async fn complete(
        &self,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
    ) -> std::result::Result<(), StoreError> {
        self.wait(self.store.complete(claim, response, retention)).await
    }
    async fn release(&self, claim: &Claim, retention: Duration) -> std::result::Result<(), StoreError> {
        self.wait(self.store.release(claim, retention)).await
    }
    async fn ended(&self, claim: &Claim) {
        self.wait(self.store.ended(claim)).await;
    }
}

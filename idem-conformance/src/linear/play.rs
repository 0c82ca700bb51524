//! Callers at work at the same time, and the history of what they called and were told.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use idem_core::{ClaimOutcome, KeyId, Maintain, StoreErrorKind};
use tokio::{
    sync::Barrier,
    task::{JoinSet, yield_now},
};

use super::plan::{Fault, Move, Told};
use crate::{
    Delayed, Faulty,
    fault::same_claim,
    step::{Reply, Step},
};

/// One call of a history. Its two moments are counted, not timed: what returned at 7 was over when another began at 8.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) caller: usize,
    pub(super) step: Step,
    pub(super) begun: u64,
    /// What its caller was told, and when. `None`: that nobody knows whether it was done.
    pub(super) reply: Option<(Reply, u64)>,
}

/// Lets the callers loose on the key and looks at it, over both handles, when they are done. They have been told `told`.
pub(super) async fn play(
    handles: &[Arc<dyn Maintain>; 2],
    id: &KeyId,
    told: Told,
    callers: Vec<Vec<Move>>,
) -> Vec<Op> {
    let shared = Arc::new(Shared {
        moment: AtomicU64::new(0),
        told: Mutex::new(told),
        start: Barrier::new(callers.len()),
    });
    let count = callers.len();
    let mut tasks = JoinSet::new();
    for (number, moves) in callers.into_iter().enumerate() {
        let store = Arc::clone(&handles[number % 2]);
        let caller =
            Caller { number, id: id.clone(), store: Faulty::new(store), shared: Arc::clone(&shared) };
        tasks.spawn(caller.play(moves));
    }
    let mut history: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    for handle in handles {
        history.push(shared.call(count, Step::Find(id.clone()), &**handle, (0, 0)).await);
    }
    history.sort_by_key(|op| op.begun);
    history
}

/// What the callers have in common.
struct Shared {
    moment: AtomicU64,
    told: Mutex<Told>,
    start: Barrier,
}

struct Caller {
    number: usize,
    id: KeyId,
    store: Faulty,
    shared: Arc<Shared>,
}

impl Caller {
    async fn play(self, moves: Vec<Move>) -> Vec<Op> {
        let (mut ops, mut mine, mut late) = (Vec::<Op>::new(), Told::default(), JoinSet::new());
        self.shared.start.wait().await;
        for (number, Move { act, fault, there, back }) in moves.into_iter().enumerate() {
            let mark = format!("caller {}, call {number}", self.number);
            let last = ops.last().map(|op| &op.step);
            let step = act.step(&self.id, &mine, &self.shared.told(), last, &mark);
            if let Some(delayed) = self.plan(fault, &step) {
                late.spawn(land(delayed, there + back));
            }
            let op = self.shared.call(self.number, step, &self.store, (there, back)).await;
            self.shared.told().learn(&op);
            mine.learn(&op);
            ops.push(op);
        }
        late.join_all().await;
        ops
    }

    fn plan(&self, fault: Fault, step: &Step) -> Option<Delayed> {
        match fault {
            Fault::None => {}
            Fault::LoseReply => self.store.lose_reply(step.method()),
            Fault::LoseRequest => self.store.lose_request(step.method()),
            Fault::Delay => return Some(self.store.delay(step.method())),
        }
        None
    }
}

async fn land(delayed: Delayed, after: usize) {
    dawdle(after).await;
    let _nobody_is_told = delayed.land().await;
}

async fn dawdle(turns: usize) {
    for _ in 0..turns {
        yield_now().await;
    }
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call(
        &self,
        caller: usize,
        step: Step,
        store: &dyn Maintain,
        (there, back): (usize, usize),
    ) -> Op {
        let begun = self.moment.fetch_add(1, Ordering::SeqCst);
        dawdle(there).await;
        let reply = step.call(store).await;
        dawdle(back).await;
        let returned = self.moment.fetch_add(1, Ordering::SeqCst);
        let reply = (reply.error() != Some(StoreErrorKind::Unknown)).then_some((reply, returned));
        Op { caller, step, begun, reply }
    }
}

impl Told {
    fn learn(&mut self, op: &Op) {
        match &op.reply {
            Some((Reply::Claim(Ok(ClaimOutcome::Claimed(claim))), _)) => {
                self.claim = Some(Arc::new(same_claim(claim)));
            }
            Some((Reply::Found(Ok(Some(record))), _)) => self.found = Some((**record).clone()),
            Some(_) | None => {}
        }
    }
}

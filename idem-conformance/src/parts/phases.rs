//! Transactions of the store's that carry an operation.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use idem_core::{
    Answer, BoxError, Completed, Engine, Error, ErrorKind, Operation, Policy, RunError, State, StoredResponse,
};
use tokio::sync::oneshot;

use super::{Ran, Stage, executed, key, part, same};
use crate::Harness;

/// A store whose transactions can carry an operation, together with rows of an application and messages.
#[async_trait]
pub trait Phases: Harness {
    /// Ends the operation in a transaction, as [`Play`] says.
    async fn phase(&self, operation: Operation, play: Play) -> Result<Completed, Error>;

    /// Does a step in a transaction, as [`Play`] says; its result is how many rows there were with its own.
    async fn step(&self, operation: &mut Operation, name: &'static str, play: Play) -> Result<u64, Error>;

    /// What is committed.
    async fn written(&self) -> Written;

    /// The answer to the next commit of a transaction is lost, whether it `happens` or not.
    async fn lose_commit(&self, happens: bool);
}

/// What is done in a transaction: the fence; what is waited for, if anything; one row; one message to the topic `row`; the answer
/// 201, or the step's result; the commit, or none.
pub struct Play {
    /// Awaited after the fence.
    pub meanwhile: BoxFuture<'static, ()>,
    /// The transaction is given up in place of its commit: a phase is dropped, and the work of a step fails. A phase then
    /// answers an error of any kind.
    pub gives_up: bool,
    /// Is told the id of the message when it is added, whatever becomes of the transaction.
    pub emitted: Emitted,
}

impl Play {
    fn through() -> Self {
        Self::meanwhile(async {})
    }

    fn given_up() -> Self {
        Self { gives_up: true, ..Self::through() }
    }

    fn meanwhile(what: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { meanwhile: Box::pin(what), gives_up: false, emitted: Emitted::default() }
    }

    /// The answer that ends the operation.
    pub fn answer() -> StoredResponse {
        StoredResponse::new(201, "done").unwrap_or_else(|_| unreachable!("a final status"))
    }
}

/// Ids of messages, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Emitted(Arc<Mutex<Vec<String>>>);

impl Emitted {
    /// A message was added under this id.
    pub fn tell(&self, id: &impl ToString) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(id.to_string());
    }

    fn ids(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Play").field("gives_up", &self.gives_up).finish_non_exhaustive()
    }
}

/// What transactions have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows of the application.
    pub rows: u64,
    /// Ids of messages, in the order in which they were added.
    pub messages: Vec<String>,
}

impl Written {
    fn counts(&self) -> (u64, usize) {
        (self.rows, self.messages.len())
    }
}

/// Hands the list to another macro, after that macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __every_phase_case {
    ([$($then:tt)+] $arguments:tt) => {
        $($then)+! { $arguments
            phase_leaves_row_message_and_answer "a transaction that ends an operation leaves row, message and answer together"
            phase_given_up_leaves_nothing "a transaction that is given up leaves neither row nor message, and its operation is not completed"
            phase_of_an_owner_left_behind_is_lost "an owner that was left behind begins no transaction, and leaves nothing"
            phase_holds_others_off "while a transaction is open nobody else has the key"
            phase_whose_commit_was_lost_is_settled "a commit whose answer was lost has happened whole or not at all, and the run says which"
            phase_done_over_keeps_its_message "a transaction that is done over gives its message the id that it had"
            step_leaves_row_and_message "a step leaves its row and its message, and the operation goes on"
            step_is_done_once "a step that was committed is not done again, and a later owner gets its result"
            step_given_up_leaves_nothing "a step whose work fails leaves nothing, and is done anew"
            step_of_an_owner_left_behind_is_lost "an owner that was left behind does no step, and leaves nothing"
            step_whose_commit_was_lost_is_settled "the commit of a step whose answer was lost has happened whole or not at all"
        }
    };
}

__every_phase_case! { [part] [Phases] }

/// Makes one `#[test]` of every case, against the transactions of this [`Phases`] harness.
#[macro_export]
macro_rules! phases {
    ($harness:ty) => {
        $crate::__every_phase_case! { [$crate::__part_tests] [phases $harness] }
    };
}

impl<H: Phases> Stage<H> {
    /// A run of one phase.
    async fn phase(&self, play: Play) -> Ran {
        let harness = Arc::clone(&self.harness);
        self.run(async move |operation: Operation| Ok(harness.phase(operation, play).await?)).await
    }

    /// A run of one step, whose result it answers with, and of a phase.
    async fn step(&self, play: Play) -> (Ran, Option<u64>) {
        let (harness, (tell, told)) = (Arc::clone(&self.harness), oneshot::channel());
        let ran = self.run(async move |mut operation: Operation| {
            let step = harness.step(&mut operation, "step", play).await?;
            let _ = tell.send(step);
            Ok(harness.phase(operation, Play::through()).await?)
        });
        (ran.await, told.await.ok())
    }

    /// Work that waits after its claim until another owner has gone through, and then goes on with this.
    async fn left_behind<F, Fut>(&self, work: F) -> (Ran, Written)
    where
        F: FnOnce(Arc<H>, Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Completed, BoxError>> + Send + 'static,
    {
        let (claimed, wait) = oneshot::channel();
        let (go, told) = oneshot::channel();
        let harness = Arc::clone(&self.harness);
        let late = self.run(async move |operation: Operation| {
            let _ = claimed.send(());
            told.await?;
            work(harness, operation).await
        });
        let overtake = async {
            wait.await.expect("it is claimed");
            self.harness.elapse(Policy::resumable().lease_span()).await;
            let another = Engine::new(self.harness.second().await);
            let harness = Arc::clone(&self.harness);
            let work = async move |operation: Operation| {
                Ok::<_, BoxError>(harness.phase(operation, Play::through()).await?)
            };
            let ran = another.run(key(), same(), &Policy::resumable(), work).await;
            assert!(executed(&ran), "the next owner: {ran:?}");
            let written = self.harness.written().await;
            go.send(()).expect("it waits");
            written
        };
        tokio::join!(late, overtake)
    }

    async fn counts(&self) -> (u64, usize) {
        self.harness.written().await.counts()
    }

    async fn state(&self) -> State {
        let record = self.harness.store().find(&key()).await.expect("it can be read");
        record.expect("a record").state
    }
}

/// What the work was told, if it returned that.
fn told(ran: &Ran) -> Option<ErrorKind> {
    match ran {
        Err(RunError::Work(error)) => error.downcast_ref::<Error>().map(Error::kind),
        Ok(_) | Err(RunError::Engine(_) | RunError::Panicked) => None,
    }
}

async fn phase_leaves_row_message_and_answer<H: Phases>(stage: &Stage<H>) {
    let first = stage.phase(Play::through()).await;
    let Ok(Answer::Executed(first)) = first else { panic!("not executed: {first:?}") };
    assert_eq!(stage.counts().await, (1, 1), "rows and messages");
    let again = stage.phase(Play::through()).await;
    let Ok(Answer::Replayed(again)) = again else { panic!("not replayed: {again:?}") };
    assert_eq!((first, stage.counts().await), (again, (1, 1)));
}

async fn phase_given_up_leaves_nothing<H: Phases>(stage: &Stage<H>) {
    let given_up = stage.phase(Play::given_up()).await;
    assert!(!executed(&given_up), "{given_up:?}");
    assert_eq!(stage.counts().await, (0, 0), "rows and messages");
    assert!(!matches!(stage.state().await, State::Completed { .. }), "nothing was answered");
    let done = stage.phase(Play::through()).await;
    assert!(executed(&done), "{done:?}");
    assert_eq!(stage.counts().await, (1, 1));
}

async fn phase_of_an_owner_left_behind_is_lost<H: Phases>(stage: &Stage<H>) {
    let (late, before) = stage
        .left_behind(async move |harness, operation| Ok(harness.phase(operation, Play::through()).await?))
        .await;
    assert!(matches!(late, Ok(Answer::InProgress { .. })), "{late:?}");
    assert_eq!(stage.harness.written().await, before, "what the late owner left");
}

async fn phase_holds_others_off<H: Phases>(stage: &Stage<H>) {
    let another = Engine::new(stage.harness.second().await);
    let (tell, told) = oneshot::channel();
    let meanwhile = async move {
        let work = async |operation: Operation| Ok::<_, BoxError>(operation.complete(Play::answer()).await?);
        let _ = tell.send(another.run(key(), same(), &Policy::resumable(), work).await);
    };
    let ran = stage.phase(Play::meanwhile(meanwhile)).await;
    let other = told.await.expect("it was waited for");
    assert!(executed(&ran), "{ran:?}");
    assert!(matches!(other, Ok(Answer::InProgress { .. })), "{other:?}");
    assert_eq!(stage.counts().await, (1, 1));
}

async fn phase_whose_commit_was_lost_is_settled<H: Phases>(stage: &Stage<H>) {
    stage.harness.lose_commit(false).await;
    let vanished = stage.phase(Play::through()).await;
    assert_eq!(told(&vanished), Some(ErrorKind::RolledBack), "{vanished:?}");
    assert_eq!(stage.counts().await, (0, 0));
    stage.harness.lose_commit(true).await;
    let hidden = stage.phase(Play::through()).await;
    assert!(executed(&hidden), "{hidden:?}");
    assert_eq!(stage.counts().await, (1, 1));
    let again = stage.phase(Play::through()).await;
    assert!(matches!(again, Ok(Answer::Replayed(_))), "{again:?}");
}

async fn phase_done_over_keeps_its_message<H: Phases>(stage: &Stage<H>) {
    let (given_up, through) = (Play::given_up(), Play::through());
    let emitted = [given_up.emitted.clone(), through.emitted.clone()];
    assert!(!executed(&stage.phase(given_up).await));
    let ran = stage.phase(through).await;
    assert!(executed(&ran), "{ran:?}");
    let [before, now] = emitted.map(|ids| ids.ids());
    assert_eq!(before.len(), 1, "the transaction that was given up had added its message");
    assert_eq!((&before, stage.harness.written().await.messages), (&now, now.clone()));
}

async fn step_leaves_row_and_message<H: Phases>(stage: &Stage<H>) {
    let (ran, step) = stage.step(Play::through()).await;
    assert!(executed(&ran), "{ran:?}");
    assert_eq!((step, stage.counts().await), (Some(1), (2, 2)), "those of the step and of the phase");
    let mut messages = stage.harness.written().await.messages;
    messages.dedup();
    assert_eq!(messages.len(), 2, "each has an id of its own");
}

async fn step_is_done_once<H: Phases>(stage: &Stage<H>) {
    let harness = Arc::clone(&stage.harness);
    let failed = stage
        .run(async move |mut operation: Operation| {
            harness.step(&mut operation, "step", Play::through()).await?;
            Err::<Completed, BoxError>("killed".into())
        })
        .await;
    assert!(matches!(failed, Err(RunError::Work(_))), "{failed:?}");
    assert_eq!(stage.state().await, State::InProgress, "what is recorded is not released");
    let (ran, step) = stage.step(Play::through()).await;
    assert!(executed(&ran), "{ran:?}");
    assert_eq!((step, stage.counts().await), (Some(1), (2, 2)), "it got the first one's result");
}

async fn step_given_up_leaves_nothing<H: Phases>(stage: &Stage<H>) {
    let (ran, step) = stage.step(Play::given_up()).await;
    assert_eq!((told(&ran), step), (Some(ErrorKind::RolledBack), None), "{ran:?}");
    assert_eq!(stage.counts().await, (0, 0));
    let (ran, step) = stage.step(Play::through()).await;
    assert!(executed(&ran), "{ran:?}");
    assert_eq!((step, stage.counts().await), (Some(1), (2, 2)));
}

async fn step_of_an_owner_left_behind_is_lost<H: Phases>(stage: &Stage<H>) {
    let (late, before) = stage
        .left_behind(async move |harness, mut operation| {
            harness.step(&mut operation, "step", Play::through()).await?;
            Ok(operation.complete(Play::answer()).await?)
        })
        .await;
    assert!(matches!(late, Ok(Answer::InProgress { .. })), "{late:?}");
    assert_eq!(stage.harness.written().await, before, "what the late owner left");
}

async fn step_whose_commit_was_lost_is_settled<H: Phases>(stage: &Stage<H>) {
    stage.harness.lose_commit(false).await;
    let (vanished, step) = stage.step(Play::through()).await;
    assert_eq!((told(&vanished), step), (Some(ErrorKind::RolledBack), None), "{vanished:?}");
    assert_eq!(stage.counts().await, (0, 0));
    stage.harness.lose_commit(true).await;
    let (hidden, step) = stage.step(Play::through()).await;
    assert!(executed(&hidden), "{hidden:?}");
    assert_eq!((step, stage.counts().await), (Some(1), (2, 2)));
}

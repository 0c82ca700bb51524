//! Parts that a store may have: transactions that carry an operation, an outbox with its relay, an inbox.
//!
//! A store that has one implements its trait for the [`Harness`] and names it in the part's macro; every case becomes a `#[test]`.
//! There is no flag that says "I have none": what is not named is not claimed.
//!
//! | part | trait | macro |
//! |---|---|---|
//! | transactions that carry an operation | [`Phases`](phases::Phases) | [`phases!`](crate::phases) |
//! | an outbox and its relay | [`Messages`](messages::Messages) | [`messages!`](crate::messages) |
//! | an inbox | [`Deliveries`](deliveries::Deliveries) | [`deliveries!`](crate::deliveries) |

pub mod deliveries;
pub mod messages;
pub mod phases;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use idem_core::{
    Answer, BoxError, Ending, Engine, Fingerprint, Fingerprints, KeyId, Operation, Policy, RunError, Scope,
};

use crate::{Harness, suite::message};

/// A case of a part that has not ended by then never will.
const PATIENCE: Duration = Duration::from_mins(1);

type Ran = Result<Answer, RunError<BoxError>>;

/// A fresh store with an engine, and one key.
struct Stage<H> {
    harness: Arc<H>,
    engine: Engine,
}

impl<H: Harness> Stage<H> {
    async fn set() -> Self {
        let harness = Arc::new(H::start().await);
        Self { engine: Engine::new(harness.store()), harness }
    }

    /// A run of the one key.
    async fn run<F, Fut, R>(&self, work: F) -> Ran
    where
        F: FnOnce(Operation) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, BoxError>> + Send + 'static,
        R: Into<Ending> + Send + 'static,
    {
        self.engine.run(key(), same(), &Policy::resumable(), work).await
    }
}

fn key() -> KeyId {
    KeyId::new(Scope::new("tenant-1").expect("a scope"), "part-1".parse().expect("a key"))
}

fn same() -> Fingerprints {
    Fingerprint::of("a part of the suite").finish()
}

fn executed(ran: &Ran) -> bool {
    matches!(ran, Ok(Answer::Executed(_)))
}

/// Runs one case, whose panic then names it and its promise.
async fn judge(name: &str, promise: &str, case: impl Future<Output = ()> + Send) {
    let failure = match tokio::time::timeout(PATIENCE, AssertUnwindSafe(case).catch_unwind()).await {
        Ok(Ok(())) => return,
        Ok(Err(panic)) => message(&*panic),
        Err(_) => format!("not answered within {PATIENCE:?}"),
    };
    panic!("{name}: {promise}\n  {failure}");
}

/// A runtime of its own for one case.
fn alone(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(case);
}

/// Makes the cases of a part out of their list.
macro_rules! part {
    ([$capability:ident] $($name:ident $promise:literal)+) => {
        /// The cases of this part: their names, and what each holds a store to.
        pub const CASES: &[(&str, &str)] = &[$((stringify!($name), $promise),)+];

        /// Runs one case against a fresh store. It needs a tokio runtime with more than one worker, since it races calls.
        ///
        /// # Panics
        /// If the store breaks the promise: the message names the case, its promise and what was seen. Also if there is no
        /// case of that name.
        pub async fn run_case<H: $capability>(name: &str) {
            match name {
                $(stringify!($name) => {
                    crate::parts::judge(name, $promise, async { $name(&Stage::<H>::set().await).await }).await;
                })+
                _ => panic!("there is no case {name}"),
            }
        }

        #[doc(hidden)]
        pub fn run_alone<H: $capability>(name: &str) {
            crate::parts::alone(run_case::<H>(name));
        }
    };
}
pub(crate) use part;

#[doc(hidden)]
#[macro_export]
macro_rules! __part_tests {
    ([$part:ident $harness:ty] $($name:ident $promise:literal)+) => {
        $(
            #[test]
            fn $name() {
                $crate::parts::$part::run_alone::<$harness>(stringify!($name));
            }
        )+
    };
}

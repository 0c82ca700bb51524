//! Running the cases: one by its name, or every one as a test.

use std::{any::Any, panic::AssertUnwindSafe, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};

use crate::{Harness, bench::Bench};

/// A case that has not ended by then never will: a lock that is not given back, a call that is not answered.
const PATIENCE: Duration = Duration::from_mins(2);

/// One promise of the contract and the case that checks it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Case {
    /// The case's name, which is the test's name; begins with the group.
    pub name: &'static str,
    /// The part of the contract that it belongs to.
    pub group: &'static str,
    /// What it holds a store to, in one line.
    pub promise: &'static str,
    pub(crate) run: for<'a> fn(&'a Bench) -> BoxFuture<'a, ()>,
}

/// Every case, group by group.
pub fn cases() -> &'static [Case] {
    crate::cases::ALL
}

/// Runs one case against a fresh store. It needs a tokio runtime with more than one worker, since it races calls.
///
/// # Panics
/// If the store breaks the promise: the message names the case, its promise and what was seen. Also if there is no
/// case of that name.
pub async fn run_case<H: Harness>(name: &str) {
    let Some(case) = cases().iter().find(|case| case.name == name) else {
        panic!("there is no case {name}; `cases()` lists them all");
    };
    let trial = async {
        let bench = Bench::start::<H>().await;
        (case.run)(&bench).await;
    };
    let failure = match tokio::time::timeout(PATIENCE, AssertUnwindSafe(trial).catch_unwind()).await {
        Ok(Ok(())) => return,
        Ok(Err(panic)) => message(&*panic),
        Err(_) => format!("not answered within {PATIENCE:?}"),
    };
    panic!("{name}: {}\n  {failure}", case.promise);
}

/// What a panic says.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// Runs one case in a runtime of its own; what [`suite!`](crate::suite) puts into each test.
#[doc(hidden)]
#[expect(clippy::expect_used, reason = "a test that gets no runtime fails")]
pub fn run_alone<H: Harness>(name: &str) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(run_case::<H>(name));
}

/// Makes one `#[test]` of every case, against the store of this [`Harness`].
///
/// Each test starts a fresh store in a runtime of its own. A case that is added to the suite reaches every store with
/// the next build.
#[macro_export]
macro_rules! suite {
    ($harness:ty) => {
        $crate::__every_case! { [$crate::__tests] [$harness] }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ([$harness:ty] $($group:ident { $($name:ident $promise:literal)+ })+) => {
        $($(
            #[test]
            fn $name() {
                $crate::__run_alone::<$harness>(stringify!($name));
            }
        )+)+
    };
}

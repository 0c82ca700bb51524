//! An outbox and its relay: what is committed is published, at least once, and nothing else is.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::join_all;

use super::{Stage, part};
use crate::Harness;

/// A store with an outbox and a relay.
#[async_trait]
pub trait Messages: Harness {
    /// Begins a transaction.
    async fn begin(&self) -> Box<dyn Open>;

    /// One pass of a relay of its own, as another process would run it: every message that is due goes to `sink`, by its payload
    /// and id, until none is left. What the sink refuses is tried again later, after [`BACK_OFF`] at most.
    async fn relay(&self, sink: Sink);

    /// As [`relay`](Self::relay), but the process dies before it has noted what the sink took; its leases run out
    /// within [`BACK_OFF`].
    async fn relay_and_die(&self, sink: Sink);
}

/// What a relay publishes to. It may block its thread for a while, so it is called where it may: with `spawn_blocking`.
pub type Sink = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// For how long a message that was refused, or whose relay died, waits at most for the next try.
pub const BACK_OFF: Duration = Duration::from_hours(1);

/// An open transaction.
#[async_trait]
pub trait Open: Send {
    /// Adds a message with this payload, in order within `key` if there is one; returns its id.
    async fn add(&mut self, payload: &str, key: Option<&str>) -> String;

    /// Commits.
    async fn commit(self: Box<Self>);

    /// Rolls back.
    async fn roll_back(self: Box<Self>);
}

/// Hands the list to another macro, after that macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __every_message_case {
    ([$($then:tt)+] $arguments:tt) => {
        $($then)+! { $arguments
            message_committed_is_published "a message that was committed is published under its id, and not again once that is noted"
            message_rolled_back_is_never_seen "a message whose transaction was rolled back is never published"
            message_open_is_not_seen_yet "a message is not published before its transaction is committed"
            message_committed_late_is_not_skipped "a message that was added first and committed last is published all the same"
            message_committed_meanwhile_is_not_marked "a message that is committed while others are published is not taken for one of them"
            message_whose_relay_died_is_published_again "what was published and not noted is published again, under the same id"
            message_refused_is_tried_again "a message that the broker refuses is tried again, and keeps no other from being published"
            message_order_within_a_key_is_kept "messages of one order key are published in their order, whatever is refused"
            message_many_relays_share_the_work "of many relays at once each message is published, and most of them by one"
        }
    };
}

__every_message_case! { [part] [Messages] }

/// Makes one `#[test]` of every case, against the outbox and relay of this [`Messages`] harness.
#[macro_export]
macro_rules! messages {
    ($harness:ty) => {
        $crate::__every_message_case! { [$crate::__part_tests] [messages $harness] }
    };
}

/// What a sink has taken: payloads and ids.
type Taken = Arc<Mutex<Vec<(String, String)>>>;

/// A sink that takes what `accepts` says, and the list of it.
fn sink(accepts: impl Fn(&str) -> bool + Send + Sync + 'static) -> (Sink, Taken) {
    let taken = Taken::default();
    let list = Arc::clone(&taken);
    let sink: Sink = Arc::new(move |payload, id| {
        let accepted = accepts(payload);
        if accepted {
            list.lock().unwrap_or_else(PoisonError::into_inner).push((payload.to_owned(), id.to_owned()));
        }
        accepted
    });
    (sink, taken)
}

fn payloads(taken: &Taken) -> Vec<String> {
    taken.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(payload, _)| payload.clone()).collect()
}

impl<H: Messages> Stage<H> {
    /// Adds messages, each in a transaction of its own; returns their ids.
    async fn add(&self, messages: &[&str], key: Option<&str>) -> Vec<String> {
        let mut ids = Vec::new();
        for payload in messages {
            let mut open = self.harness.begin().await;
            ids.push(open.add(payload, key).await);
            open.commit().await;
        }
        ids
    }

    /// What one more pass publishes.
    async fn relayed(&self) -> Vec<String> {
        let (sink, taken) = sink(|_| true);
        self.harness.relay(sink).await;
        payloads(&taken)
    }
}

async fn message_committed_is_published<H: Messages>(stage: &Stage<H>) {
    let ids = stage.add(&["a", "b"], None).await;
    let (sink, taken) = sink(|_| true);
    stage.harness.relay(sink).await;
    let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner).clone();
    taken.sort_unstable();
    assert_eq!(taken, [("a".to_owned(), ids[0].clone()), ("b".to_owned(), ids[1].clone())]);
    stage.harness.elapse(BACK_OFF).await;
    assert_eq!(stage.relayed().await, Vec::<String>::new(), "once more");
}

async fn message_rolled_back_is_never_seen<H: Messages>(stage: &Stage<H>) {
    let mut open = stage.harness.begin().await;
    open.add("lost", None).await;
    open.roll_back().await;
    stage.add(&["kept"], None).await;
    stage.harness.elapse(BACK_OFF).await;
    assert_eq!(stage.relayed().await, ["kept"]);
}

async fn message_open_is_not_seen_yet<H: Messages>(stage: &Stage<H>) {
    let mut open = stage.harness.begin().await;
    open.add("open", None).await;
    assert_eq!(stage.relayed().await, Vec::<String>::new());
    open.commit().await;
    assert_eq!(stage.relayed().await, ["open"]);
}

async fn message_committed_late_is_not_skipped<H: Messages>(stage: &Stage<H>) {
    // Whatever numbers the messages does it when they are added: the first number is committed last.
    let mut first = stage.harness.begin().await;
    first.add("first", None).await;
    let mut second = stage.harness.begin().await;
    second.add("second", None).await;
    second.commit().await;
    assert_eq!(stage.relayed().await, ["second"]);
    first.commit().await;
    assert_eq!(stage.relayed().await, ["first"]);
}

async fn message_committed_meanwhile_is_not_marked<H: Messages>(stage: &Stage<H>) {
    let mut first = stage.harness.begin().await;
    first.add("first", None).await;
    stage.add(&["second"], None).await;
    // It is committed between the moment when the relay looked and the one when it notes what it published.
    let (commit, wait) = std::sync::mpsc::channel::<()>();
    let (committed, done) = std::sync::mpsc::channel::<()>();
    let (commit, done) = (Mutex::new(Some(commit)), Mutex::new(done));
    let (sink, taken) = sink(move |payload| {
        if payload == "second" && commit.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            let _ = done.lock().unwrap_or_else(PoisonError::into_inner).recv();
        }
        true
    });
    let late = async {
        // The sender falls when the sink asks for it.
        let asked = tokio::task::spawn_blocking(move || wait.recv());
        let _ = asked.await;
        first.commit().await;
        drop(committed);
    };
    tokio::join!(stage.harness.relay(sink), late);
    let mut all = payloads(&taken);
    all.extend(stage.relayed().await);
    all.sort_unstable();
    assert_eq!(all, ["first", "second"]);
}

async fn message_whose_relay_died_is_published_again<H: Messages>(stage: &Stage<H>) {
    let ids = stage.add(&["a"], None).await;
    let (first, once) = sink(|_| true);
    stage.harness.relay_and_die(first).await;
    stage.harness.elapse(BACK_OFF).await;
    let (second, twice) = sink(|_| true);
    stage.harness.relay(second).await;
    let expected = vec![("a".to_owned(), ids[0].clone())];
    for taken in [once, twice] {
        assert_eq!(*taken.lock().unwrap_or_else(PoisonError::into_inner), expected);
    }
}

async fn message_refused_is_tried_again<H: Messages>(stage: &Stage<H>) {
    stage.add(&["poison", "a", "b"], None).await;
    let (picky, taken) = sink(|payload| payload != "poison");
    stage.harness.relay(picky).await;
    let mut others = payloads(&taken);
    others.sort_unstable();
    assert_eq!(others, ["a", "b"]);
    stage.harness.elapse(BACK_OFF).await;
    assert_eq!(stage.relayed().await, ["poison"]);
}

async fn message_order_within_a_key_is_kept<H: Messages>(stage: &Stage<H>) {
    stage.add(&["1", "2", "3"], Some("order 42")).await;
    stage.add(&["x"], Some("order 43")).await;
    let (picky, taken) = sink(|payload| payload != "2");
    stage.harness.relay(picky).await;
    let mut first = payloads(&taken);
    first.sort_unstable();
    assert_eq!(first, ["1", "x"], "what comes after a refused one waits");
    stage.harness.elapse(BACK_OFF).await;
    let mut rest = Vec::new();
    for _ in 0..3 {
        rest.extend(stage.relayed().await);
    }
    assert_eq!(rest, ["2", "3"]);
}

async fn message_many_relays_share_the_work<H: Messages>(stage: &Stage<H>) {
    const MESSAGES: usize = 200;
    let all: Vec<String> = (0..MESSAGES).map(|number| format!("m-{number}")).collect();
    let mut open = stage.harness.begin().await;
    for payload in &all {
        open.add(payload, None).await;
    }
    open.commit().await;
    let (sink, taken) = sink(|_| true);
    join_all((0..4).map(|_| stage.harness.relay(Arc::clone(&sink)))).await;
    let taken = payloads(&taken);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), MESSAGES, "each is published");
    assert_eq!(taken.len(), MESSAGES, "and none twice, where no relay lost its lease");
}

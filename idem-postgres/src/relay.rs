//! Publishes what was committed.

mod batch;
mod claim;
mod event;
mod wake;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use idem_core::StoreError;
use tokio::time::Instant;
use tracing::warn;

use crate::{PostgresStore, Publisher};

/// How many batches one pass takes at most, so that its caller hears from it.
const BATCHES: usize = 1000;
/// The pause between two looks at how much waits.
const GAUGES_EVERY: Duration = Duration::from_secs(10);

/// Publishes the messages of an outbox: each at least once, and always under its id.
///
/// It claims a batch for the length of a lease, publishes with no connection, lock or transaction held, and then marks exactly
/// what was acknowledged. A relay that dies in between leaves its batch to the next one when the lease is over, so a message
/// may be published twice, and consumers ask their [`Inbox`](crate::Inbox). Any number of relays may share an outbox; start
/// one in each process.
///
/// ```no_run
/// use idem_postgres::{MemoryPublisher, PostgresStore, Relay};
///
/// # async fn start(store: PostgresStore) {
/// let (publisher, mut messages) = MemoryPublisher::bounded(100);
/// tokio::spawn(Relay::new(store, publisher).run());
/// while let Some(message) = messages.recv().await {
///     println!("{} {}", message.id(), message.topic());
/// }
/// # }
/// ```
///
/// # Order
///
/// There is none, except among messages of one order key: one is published only when all earlier ones of its key are
/// marked, or were acknowledged in the same batch before it. A failure stops its key and nothing else. A parked message stops its
/// key until [`PostgresStore::emit_again`], unless the relay is told to [pass over](Self::pass_over_parked) it. Published
/// again is out of order by its nature, after a crash too.
///
/// # Failures
///
/// What fails, panics or takes too long is tried again after 1 s, 2 s, 4 s and so on up to 15 minutes, by the database's clock.
/// After the last of 20 tries, about two and a half hours, it is parked with its error, and waits for a person.
///
/// # Metrics
///
/// | metric | kind | counts |
/// |---|---|---|
/// | `idem_outbox_published_total` | counter | messages marked as published |
/// | `idem_outbox_failed_total` | counter | tries that failed |
/// | `idem_outbox_parked_total` | counter | messages given up |
/// | `idem_outbox_lost_total` | counter | messages that another relay had taken over when they were to be marked |
/// | `idem_outbox_waiting` `idem_outbox_parked` | gauge | messages that wait, messages that are parked |
/// | `idem_outbox_oldest_seconds` | gauge | for how long the oldest has waited |
#[derive(Clone, Debug)]
pub struct Relay {
    store: PostgresStore,
    publisher: Arc<dyn Publisher>,
    batch: u32,
    concurrency: usize,
    lease: Duration,
    within: Duration,
    every: Duration,
    max_tries: u32,
    keep: Duration,
    pass_over: bool,
    listening: bool,
}

/// What a pass came to, in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Relayed {
    /// Claimed.
    pub claimed: u64,
    /// Marked as published.
    pub published: u64,
    /// Failed, to be tried again or parked.
    pub failed: u64,
    /// Of those, parked.
    pub parked: u64,
    /// Given back untried: behind a failure of their order key, or too late in the lease.
    pub given_back: u64,
    /// Tried, and taken over by another relay before that could be marked.
    pub lost: u64,
}

impl Relay {
    /// A relay of this store's outbox: batches of 100, 16 at once, a lease of a minute, 10 s for each, a look every second.
    pub fn new(store: PostgresStore, publisher: impl Publisher) -> Self {
        Self {
            store,
            publisher: Arc::new(publisher),
            batch: 100,
            concurrency: 16,
            lease: Duration::from_mins(1),
            within: Duration::from_secs(10),
            every: Duration::from_secs(1),
            max_tries: 20,
            keep: Duration::from_hours(24),
            pass_over: false,
            listening: false,
        }
    }

    /// How many messages are claimed at once; default 100, 1 to 10 000.
    #[must_use]
    pub fn batch(mut self, messages: u32) -> Self {
        self.batch = messages.clamp(1, 10_000);
        self
    }

    /// How many of a batch are published at once; default 16, at least 1.
    #[must_use]
    pub fn concurrency(mut self, messages: usize) -> Self {
        self.concurrency = messages.max(1);
        self
    }

    /// How long a batch is claimed for; default a minute, 1 s to 1 hour. After a crash its messages wait for so long.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Duration::from_secs(1), Duration::from_hours(1));
        self
    }

    /// How long publishing one message may take; default 10 s, and never more than half of the lease.
    #[must_use]
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// The pause between two looks, when nothing is due; default 1 s, at least 10 ms.
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause.max(Duration::from_millis(10));
        self
    }

    /// After how many tries a message is parked; default 20, at least 1.
    #[must_use]
    pub fn max_tries(mut self, tries: u32) -> Self {
        self.max_tries = tries.max(1);
        self
    }

    /// How long a published message is kept, to be emitted again; default a day, at most ten years. Zero deletes it at once.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep.min(idem_core::MAX_SPAN);
        self
    }

    /// Publishes what is behind a parked message of the same order key. By default it waits.
    #[must_use]
    pub fn pass_over_parked(mut self) -> Self {
        self.pass_over = true;
        self
    }

    /// Also wakes up when somebody says `NOTIFY {table}_outbox`, such as a trigger of yours; no payload is read.
    ///
    /// It only shortens the pause, which goes on all the same, since what is said while nobody listens is lost. It takes a
    /// connection of the pool's for good, and that has to be a session: no pooler in transaction mode. Adding a message says
    /// nothing by itself: every commit with a NOTIFY waits in one line with all others of the server.
    #[must_use]
    pub fn listening(mut self) -> Self {
        self.listening = true;
        self
    }

    /// Publishes batch after batch until nothing is due, or after a thousand.
    ///
    /// # Errors
    /// The store's. What was published and could not be marked is published again once the lease is over.
    ///
    /// # Cancel safety
    /// What it had claimed when it was dropped comes again once the lease is over.
    pub async fn pass(&self) -> Result<Relayed, StoreError> {
        let (mut report, mut stopped) = (Relayed::default(), BTreeSet::new());
        for _ in 0..BATCHES {
            match batch::publish(self, &mut stopped).await? {
                Some(batch) => report.add(batch),
                None => break,
            }
        }
        Ok(report)
    }

    /// Publishes for ever. A pass that fails is reported, and the next one comes after the pause.
    ///
    /// # Cancel safety
    /// As [`pass`](Self::pass): nothing is lost.
    pub async fn run(self) {
        let mut wake = wake::Wake::new(&self);
        let mut looked_at: Option<Instant> = None;
        loop {
            if let Err(error) = self.pass().await {
                warn!(%error, "relaying failed; trying again after the pause");
            }
            if looked_at.is_none_or(|at| at.elapsed() >= GAUGES_EVERY) {
                looked_at = Some(Instant::now());
                match self.store.outbox_depth().await {
                    Ok(depth) => event::depth(depth),
                    Err(error) => warn!(%error, "the outbox could not be measured"),
                }
            }
            wake.next().await;
        }
    }
}

impl Relayed {
    fn add(&mut self, other: Self) {
        self.claimed += other.claimed;
        self.published += other.published;
        self.failed += other.failed;
        self.parked += other.parked;
        self.given_back += other.given_back;
        self.lost += other.lost;
    }
}

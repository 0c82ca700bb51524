//! An inbox: deliveries that come again have no second effect.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use idem_core::BoxError;

use super::{Stage, part};
use crate::Harness;

/// A store with an inbox.
#[async_trait]
pub trait Deliveries: Harness {
    /// Takes a delivery in one transaction: asks the inbox, has the effect if it is the first one, and commits; answers whether
    /// it was. If it `fails` it does so after the effect, in place of the commit.
    ///
    /// # Errors
    /// Nothing of it is there: the broker delivers again.
    async fn deliver(&self, consumer: &str, event: &str, fails: bool) -> Result<bool, BoxError>;

    /// How often there was an effect.
    async fn effects(&self) -> u64;
}

/// Hands the list to another macro, after that macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __every_delivery_case {
    ([$($then:tt)+] $arguments:tt) => {
        $($then)+! { $arguments
            delivery_first_has_its_effect "the first delivery of an event has its effect, and a later one has none"
            delivery_that_fails_is_taken_again "a delivery that fails leaves neither marker nor effect, and the next one runs"
            delivery_of_many_at_once_has_one_effect "of many deliveries of one event at once exactly one has an effect, and none an error"
            delivery_is_told_apart_by_consumer "two consumers of one event share no marker"
            delivery_is_told_apart_byte_for_byte "events whose ids differ in case or in a blank are different events"
        }
    };
}

__every_delivery_case! { [part] [Deliveries] }

/// Makes one `#[test]` of every case, against the inbox of this [`Deliveries`] harness.
#[macro_export]
macro_rules! deliveries {
    ($harness:ty) => {
        $crate::__every_delivery_case! { [$crate::__part_tests] [deliveries $harness] }
    };
}

const CROWD: usize = 16;

impl<H: Deliveries> Stage<H> {
    /// A delivery that is answered.
    async fn deliver(&self, consumer: &str, event: &str) -> bool {
        self.harness.deliver(consumer, event, false).await.expect("a delivery")
    }
}

async fn delivery_first_has_its_effect<H: Deliveries>(stage: &Stage<H>) {
    let first = [stage.deliver("ledger", "e-1").await, stage.deliver("ledger", "e-1").await];
    assert_eq!((first, stage.harness.effects().await), ([true, false], 1));
    assert!(stage.deliver("ledger", "e-2").await, "another event is another one");
    assert_eq!(stage.harness.effects().await, 2);
}

async fn delivery_that_fails_is_taken_again<H: Deliveries>(stage: &Stage<H>) {
    for _ in 0..2 {
        let failed = stage.harness.deliver("ledger", "e-1", true).await;
        assert!(failed.is_err(), "{failed:?}");
        assert_eq!(stage.harness.effects().await, 0);
    }
    assert!(stage.deliver("ledger", "e-1").await);
    assert_eq!(stage.harness.effects().await, 1);
}

async fn delivery_of_many_at_once_has_one_effect<H: Deliveries>(stage: &Stage<H>) {
    for round in 0..8 {
        let event = format!("e-{round}");
        let crowd = (0..CROWD).map(|_| {
            let (harness, event) = (Arc::clone(&stage.harness), event.clone());
            async move { harness.deliver("ledger", &event, false).await.expect("no error") }
        });
        let first: Vec<bool> = join_all(crowd).await;
        assert_eq!(first.iter().filter(|it| **it).count(), 1, "{event}: {first:?}");
        assert_eq!(stage.harness.effects().await, round + 1);
    }
}

async fn delivery_is_told_apart_by_consumer<H: Deliveries>(stage: &Stage<H>) {
    for consumer in ["ledger", "mailer"] {
        assert!(stage.deliver(consumer, "e-1").await, "{consumer}");
    }
    for (consumer, event) in [("a", "bc"), ("ab", "c")] {
        assert!(stage.deliver(consumer, event).await, "{consumer} {event}");
    }
    assert_eq!(stage.harness.effects().await, 4);
}

async fn delivery_is_told_apart_byte_for_byte<H: Deliveries>(stage: &Stage<H>) {
    let events = ["e", "E", "e ", " e", "e\u{301}", "\u{e9}"];
    for event in events {
        assert!(stage.deliver("ledger", event).await, "{event:?}");
    }
    assert_eq!(stage.harness.effects().await, events.len() as u64);
}

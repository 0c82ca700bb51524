//! What a store author writes: how to start a store and how to let time pass.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use idem_core::Maintain;

/// One fresh store, and its time.
///
/// Every case starts its own. The only thing that a store has to offer besides its trait methods is a way to let time
/// pass without waiting: a clock that can be moved, or an `UPDATE` that moves every stored time into the past.
#[async_trait]
pub trait Harness: Send + Sync + Sized + 'static {
    /// A fresh, empty store that nobody else uses.
    async fn start() -> Self;

    /// The store under test.
    fn store(&self) -> Arc<dyn Maintain>;

    /// The same records through another connection, as another process would see them.
    async fn second(&self) -> Arc<dyn Maintain>;

    /// The same store with nothing in it, where that is cheaper than a fresh one. Not called while a call is on its way.
    async fn emptied(self) -> Self {
        drop(self);
        Self::start().await
    }

    /// Lets `by` pass for everything stored: the clock moves forward, or every stored time moves back. Never sleeps.
    async fn elapse(&self, by: Duration);
}

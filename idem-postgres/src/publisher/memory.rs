//! A publisher within the process.

use async_trait::async_trait;
use idem_core::BoxError;
use tokio::sync::mpsc;

use super::{Outgoing, Publisher};

/// Hands messages to a receiver in this process: for tests, and for work that need not outlive it.
///
/// What is in the channel counts as published. So what a process has not worked off when it dies is lost to it; a broker's
/// acknowledgement means more.
#[derive(Clone, Debug)]
pub struct MemoryPublisher {
    sender: mpsc::Sender<Outgoing>,
}

impl MemoryPublisher {
    /// A publisher and its receiver; with `capacity` messages (at least 1) that were not received, publishing waits.
    pub fn bounded(capacity: usize) -> (Self, mpsc::Receiver<Outgoing>) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (Self { sender }, receiver)
    }
}

#[async_trait]
impl Publisher for MemoryPublisher {
    async fn publish(&self, message: &Outgoing) -> Result<(), BoxError> {
        Ok(self.sender.reserve().await.map(|place| place.send(message.clone()))?)
    }
}

//! Where messages go: what a broker's client has to do, and no more.

mod memory;

use std::fmt::{self, Debug};

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::BoxError;

use crate::message::MessageId;

pub use memory::MemoryPublisher;

/// Hands messages to a broker.
#[async_trait]
pub trait Publisher: Debug + Send + Sync + 'static {
    /// Publishes one message. `Ok` is said only once the broker has acknowledged that it keeps it; then it is not published
    /// again. After an error it is, under the same id, whether or not the broker has it already.
    ///
    /// # Errors
    /// Whatever kept it from being acknowledged; the text may be logged, so nothing of the message's payload belongs in it.
    ///
    /// # Cancel safety
    /// A dropped call may have published the message.
    async fn publish(&self, message: &Outgoing) -> Result<(), BoxError>;
}

/// A message on its way to a broker. Its payload and its headers' values never show in Debug.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    id: MessageId,
    topic: String,
    content_type: String,
    headers: Vec<(String, Bytes)>,
    payload: Bytes,
    order_key: Option<String>,
    tries: u32,
}

impl Outgoing {
    /// A message that was never tried, without headers and without an order.
    pub fn new(
        id: MessageId,
        topic: impl Into<String>,
        content_type: impl Into<String>,
        payload: impl Into<Bytes>,
    ) -> Self {
        Self {
            id,
            topic: topic.into(),
            content_type: content_type.into(),
            headers: Vec::new(),
            payload: payload.into(),
            order_key: None,
            tries: 0,
        }
    }

    /// Adds a header behind those that it has; a name may come more than once.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Puts it in line behind the earlier messages of the same key.
    #[must_use]
    pub fn ordered_by(mut self, order_key: impl Into<String>) -> Self {
        self.order_key = Some(order_key.into());
        self
    }

    /// Says how often publishing it was tried before.
    #[must_use]
    pub fn tried(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// Its id, the same at each try.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// What it is about, such as `order.charged`.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The media type of the payload.
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// Its headers in order.
    pub fn headers(&self) -> &[(String, Bytes)] {
        &self.headers
    }

    /// Its bytes.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The key within which the order counts.
    pub fn order_key(&self) -> Option<&str> {
        self.order_key.as_deref()
    }

    /// How often publishing it was tried before; 0 at the first try.
    pub fn tries(&self) -> u32 {
        self.tries
    }
}

impl Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("bytes", &self.payload.len())
            .field("tries", &self.tries)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn o04_a_message_in_a_log_shows_nothing_of_what_it_says() {
        let message = Outgoing::new(MessageId::from(Uuid::nil()), "order.charged", "text/plain", "secret-1")
            .header("x", "secret-2")
            .ordered_by("secret-3");
        let shown = format!("{message:?}");
        assert!(shown.contains("order.charged") && !shown.contains("secret"), "{shown}");
        assert_eq!(message.id().to_string(), "00000000-0000-0000-0000-000000000000");
    }
}

//! What leaves through the outbox.

use std::{fmt, slice};

use bytes::Bytes;
use idem_core::{Invalid, OperationId, StoredResponse};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The most bytes of a message: payload, header names and header values.
pub const MAX_MESSAGE: usize = 1 << 20;

/// The longest topic, content type and order key, in bytes.
const LONGEST: usize = 255;

/// A message to other systems: a topic, and bytes that are published as they are.
///
/// ```
/// use idem_postgres::Message;
///
/// let message = Message::json("order.charged", &serde_json::json!({ "order": 42 }))?.header("tenant", "7")?.ordered_by("order 42")?;
/// assert_eq!(message.payload(), br#"{"order":42}"#.as_slice());
/// assert_eq!(Message::new("", "text/plain", "").unwrap_err().field(), "topic");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub(crate) topic: String,
    pub(crate) content_type: String,
    pub(crate) order_key: Option<String>,
    /// Header lines and payload, encoded as those of an answer are; its status means nothing.
    pub(crate) content: StoredResponse,
}

impl Message {
    /// One with these bytes.
    ///
    /// # Errors
    /// [`Invalid`] unless topic and content type are 1 to 255 bytes without control characters and the payload is at most
    /// [`MAX_MESSAGE`] bytes.
    pub fn new(
        topic: impl Into<String>,
        content_type: impl Into<String>,
        payload: impl Into<Bytes>,
    ) -> Result<Self, Invalid> {
        let topic = named("topic", topic.into())?;
        let content_type = named("content type", content_type.into())?;
        let content = bounded(StoredResponse::new(200, payload)?)?;
        Ok(Self { topic, content_type, order_key: None, content })
    }

    /// One whose payload is `value` as JSON, serialised here and never again.
    ///
    /// # Errors
    /// As [`new`](Self::new); also if the value does not serialise.
    pub fn json<T: Serialize + ?Sized>(topic: impl Into<String>, value: &T) -> Result<Self, Invalid> {
        let payload = serde_json::to_vec(value)
            .map_err(|_| Invalid::new("payload", "a value that serialises as json"))?;
        Self::new(topic, "application/json", payload)
    }

    /// Adds a header line; lines keep their order, and names are in lower case.
    ///
    /// # Errors
    /// [`Invalid`] unless the name is 1 to 255 bytes without control characters, and the message not too large.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Result<Self, Invalid> {
        self.content = bounded(self.content.header(named("header name", name.into())?, value))?;
        Ok(self)
    }

    /// Has it published after all earlier messages with the same order key, such as the name of a customer or an order.
    ///
    /// *Earlier* is by the order of adding them. Two transactions that add at the same time have none, unless something that
    /// both of them lock gives it to them.
    ///
    /// # Errors
    /// [`Invalid`] unless it is 1 to 255 bytes without control characters.
    pub fn ordered_by(mut self, key: impl Into<String>) -> Result<Self, Invalid> {
        self.order_key = Some(named("order key", key.into())?);
        Ok(self)
    }

    /// Where it goes.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// What its bytes are.
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// What keeps it in order, if anything does.
    pub fn order_key(&self) -> Option<&str> {
        self.order_key.as_deref()
    }

    /// Its header lines, in their order.
    pub fn headers(&self) -> slice::Iter<'_, (String, Bytes)> {
        self.content.headers().iter()
    }

    /// Its bytes.
    pub fn payload(&self) -> &Bytes {
        self.content.body()
    }
}

fn named(field: &'static str, name: String) -> Result<String, Invalid> {
    if (1..=LONGEST).contains(&name.len()) && !name.contains(char::is_control) {
        return Ok(name);
    }
    Err(Invalid::new(field, "1 to 255 bytes without control characters").seen(name.len()))
}

fn bounded(content: StoredResponse) -> Result<StoredResponse, Invalid> {
    if content.size() <= MAX_MESSAGE {
        return Ok(content);
    }
    Err(Invalid::new("message", "at most 1048576 bytes, headers included").seen(content.size()))
}

/// Shows where it goes and its size.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic)
            .field("bytes", &self.content.size())
            .finish_non_exhaustive()
    }
}

/// The id of a message, over all its publications; what a consumer's inbox is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(Uuid);

impl MessageId {
    /// The id of the message number `ordinal`, from 0, of a topic in a step of an operation; the step that ends it has no name.
    ///
    /// Derived, not drawn: a transaction that is done over gives its messages the ids that they had.
    pub(crate) fn of(operation: OperationId, step: &str, topic: &str, ordinal: u64) -> Self {
        let mut digest = Sha256::new_with_prefix(b"idem message id 1");
        for part in [&operation.to_bytes()[..], step.as_bytes(), topic.as_bytes(), &ordinal.to_be_bytes()] {
            // Lengths first: no two lists of parts give the same bytes.
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let [first @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _]: [u8; 32] = digest.finalize().into();
        Self(uuid::Builder::from_custom_bytes(first).into_uuid())
    }

    /// One of its own.
    pub(crate) fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// As it stands in the table.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for MessageId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

/// 36 characters.
impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({})", self.0)
    }
}

/// The messages of one transaction of an operation: which of their topic each is.
#[derive(Debug)]
pub(crate) struct Numbered {
    operation: OperationId,
    step: String,
    topics: Vec<(String, u64)>,
}

impl Numbered {
    pub(crate) fn of(operation: OperationId, step: &str) -> Self {
        Self { operation, step: step.to_owned(), topics: Vec::new() }
    }

    pub(crate) fn operation(&self) -> OperationId {
        self.operation
    }

    /// The id of the next message of this topic.
    pub(crate) fn next(&mut self, topic: &str) -> MessageId {
        let known = self.topics.iter_mut().find(|(there, _)| there == topic);
        let ordinal = known.map_or(0, |(_, next)| {
            *next += 1;
            *next
        });
        if ordinal == 0 {
            self.topics.push((topic.to_owned(), 0));
        }
        MessageId::of(self.operation, &self.step, topic, ordinal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(byte: u8) -> OperationId {
        OperationId::from_bytes([byte; 16])
    }

    #[test]
    fn o02_an_id_depends_on_everything_that_names_the_message() {
        let first = MessageId::of(operation(1), "step", "topic", 0);
        assert_eq!(first, MessageId::of(operation(1), "step", "topic", 0));
        let others = [
            MessageId::of(operation(2), "step", "topic", 0),
            MessageId::of(operation(1), "", "topic", 0),
            MessageId::of(operation(1), "step", "topi", 0),
            MessageId::of(operation(1), "stept", "opic", 0),
            MessageId::of(operation(1), "step", "topic", 1),
        ];
        assert!(!others.contains(&first));
        assert_eq!(first.uuid().get_version_num(), 8);
    }

    #[test]
    fn o02_the_messages_of_a_transaction_are_counted_by_their_topic() {
        let ids = || {
            let mut numbered = Numbered::of(operation(1), "");
            ["a", "b", "a"].map(|topic| numbered.next(topic))
        };
        let [first, other, second] = ids();
        assert!(first != second && first != other && second != other);
        assert_eq!(ids(), [first, other, second], "done over, it gives the same ids");
        assert_eq!(second, MessageId::of(operation(1), "", "a", 1));
    }

    #[test]
    fn o16_what_is_too_long_or_no_text_is_refused_by_name_and_size() {
        let long = "x".repeat(256);
        let message = || Message::new("t", "text/plain", "x").expect("valid");
        let refused = [
            ("topic", Message::new(&long, "text/plain", "").err()),
            ("topic", Message::new("a\0", "text/plain", "").err()),
            ("content type", Message::new("t", "", "").err()),
            ("message", Message::new("t", "text/plain", vec![0; MAX_MESSAGE + 1]).err()),
            ("message", message().header("a", vec![0; MAX_MESSAGE]).err()),
            ("header name", message().header("", "").err()),
            ("order key", message().ordered_by(long.clone()).err()),
        ];
        for (field, invalid) in refused {
            assert_eq!(invalid.map(|it| it.field()), Some(field));
        }
        assert!(Message::new("t", "text/plain", vec![0; MAX_MESSAGE]).is_ok());
    }

    #[test]
    fn v04_debug_shows_no_content() {
        let message = Message::new("t", "text/plain", "secret").and_then(|it| it.header("a", "secret"));
        assert!(!format!("{message:?}").contains("secret"));
    }
}

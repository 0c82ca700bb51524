//! Messages to the streams of a NATS server.

use std::fmt;

use async_nats::{
    HeaderMap, HeaderName, HeaderValue, header,
    jetstream::{Context, message::PublishMessage},
};
use async_trait::async_trait;
use idem_core::{BoxError, Invalid};

use crate::publisher::{Outgoing, Publisher};

/// Publishes to NATS `JetStream`: a message counts as published once a stream has acknowledged that it keeps it.
///
/// The subject is the message's topic, behind a [`prefix`](Self::prefix) if there is one. Some stream must have been set up for
/// it: none is created here, and without one nothing is published. The payload goes out byte for byte, with the message's headers,
/// `Content-Type`, and the message's id as `Nats-Msg-Id`.
///
/// By that id the stream drops what it was sent before, for as long as its duplicate window lasts (`duplicate_window`, two minutes
/// unless it says otherwise). A window that has passed, a second stream or a redelivery brings a message twice all the same: the
/// consumer's [`Inbox`](crate::Inbox) is what makes its effect happen once. It is asked with the same id, from the header.
///
/// How long an acknowledgement is waited for is the context's setting, 5 seconds unless it says otherwise.
///
/// ```no_run
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_postgres::JetStream;
///
/// let client = async_nats::connect("nats://localhost:4222").await?;
/// let publisher = JetStream::new(async_nats::jetstream::new(client)).prefix("shop")?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct JetStream {
    context: Context,
    prefix: Option<String>,
}

/// Lengths of subjects are bounded by what a server reads as one line, 4096 bytes by default; this leaves room for the rest.
const LONGEST: usize = 1024;
const SUBJECT: &str =
    "1 to 1024 bytes of words between dots, without spaces, control characters, `*` and `>`, no `$` first";

impl JetStream {
    /// Publishes through this context, under topics as they are.
    pub fn new(context: Context) -> Self {
        Self { context, prefix: None }
    }

    /// Puts this and a dot before every topic.
    ///
    /// # Errors
    /// [`Invalid`] unless it is a subject.
    pub fn prefix(mut self, prefix: &str) -> Result<Self, Invalid> {
        check_subject("prefix", prefix)?;
        self.prefix = Some(prefix.to_owned());
        Ok(self)
    }

    fn subject(&self, topic: &str) -> Result<String, Invalid> {
        let subject = match &self.prefix {
            Some(prefix) => format!("{prefix}.{topic}"),
            None => topic.to_owned(),
        };
        check_subject("topic", topic).and_then(|()| check_subject("topic with its prefix", &subject))?;
        Ok(subject)
    }
}

#[async_trait]
impl Publisher for JetStream {
    async fn publish(&self, message: &Outgoing) -> Result<(), BoxError> {
        let subject = self.subject(message.topic())?;
        let headers = headers(message)?;
        let publish = PublishMessage::build().payload(message.payload().clone()).headers(headers);
        // The second await is the acknowledgement. One that says "duplicate" is one too: the stream has it.
        self.context.send_publish(subject, publish).await?.await?;
        Ok(())
    }
}

/// Names that start with a dollar are the server's own: a message to one of them could delete a stream.
fn check_subject(field: &'static str, subject: &str) -> Result<(), Invalid> {
    let is_word = |word: &str| {
        !word.is_empty()
            && !word.contains(|it: char| it.is_whitespace() || it.is_control() || matches!(it, '*' | '>'))
    };
    if subject.len() <= LONGEST && !subject.starts_with('$') && subject.split('.').all(is_word) {
        return Ok(());
    }
    Err(Invalid::new(field, SUBJECT).seen(subject.len()))
}

fn headers(message: &Outgoing) -> Result<HeaderMap, Invalid> {
    let mut headers = HeaderMap::new();
    for (name, value) in message.headers() {
        if ["nats-msg-id", "content-type"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(Invalid::new(
                "header name",
                "another one than Nats-Msg-Id and Content-Type, which say what is set already",
            ));
        }
        headers.append(header_name(name)?, header_value("header value", value)?);
    }
    headers.insert(header::NATS_MESSAGE_ID, HeaderValue::from(message.id().to_string()));
    headers.insert(
        HeaderName::from_static("Content-Type"),
        header_value("content type", message.content_type().as_bytes())?,
    );
    Ok(headers)
}

fn header_name(name: &str) -> Result<HeaderName, Invalid> {
    let allowed = "visible ASCII without a colon";
    match name.parse() {
        Ok(parsed) if !name.is_empty() => Ok(parsed),
        Ok(_) | Err(_) => Err(Invalid::new("header name", allowed).seen(name.len())),
    }
}

/// What reads a header drops the spaces around its value, so that those would not arrive.
fn header_value(field: &'static str, value: &[u8]) -> Result<HeaderValue, Invalid> {
    let text = str::from_utf8(value).ok().filter(|text| text.trim() == *text);
    let parsed = text.and_then(|text| text.parse().ok());
    parsed.ok_or(
        Invalid::new(field, "UTF-8 without line breaks and without spaces around it").seen(value.len()),
    )
}

/// Shows the prefix, nothing of the server's address.
impl fmt::Debug for JetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStream").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o03_what_is_no_subject_is_refused_and_named() {
        for good in ["order", "order.charged", "ÿ.🦀", "a$.b", &"x".repeat(1024)] {
            assert!(check_subject("topic", good).is_ok(), "{good}");
        }
        let long = "x".repeat(1025);
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a b",
            "a\tb",
            "a\r\nPUB b",
            "a\0",
            "*",
            "a.*",
            "a*",
            "a.>",
            "$JS.API.INFO",
            "\u{a0}",
            &long,
        ] {
            let refused = check_subject("topic", bad).expect_err(bad).to_string();
            let (start, end) = ("topic must be 1 to 1024 bytes of words", format!("; seen={}", bad.len()));
            assert!(refused.starts_with(start) && refused.ends_with(&end), "{refused}");
        }
    }

    #[test]
    fn o03_a_header_that_would_not_arrive_as_it_is_is_refused() {
        for bad in [&b"a\r\nb"[..], b"\n", b" a", b"a\t", b"\xff", "\u{2003}a".as_bytes()] {
            let refused = header_value("header value", bad).expect_err("refused");
            assert_eq!(refused.field(), "header value", "{bad:?}");
        }
        assert_eq!(header_value("header value", "ä b\u{1}".as_bytes()).expect("text").as_str(), "ä b\u{1}");
        assert!(header_value("header value", b"").is_ok());
        for bad in ["", "a:b", "a b", "ä", "a\r\n"] {
            assert_eq!(header_name(bad).expect_err("refused").field(), "header name", "{bad}");
        }
        assert!(header_name("traceparent").is_ok());
    }
}

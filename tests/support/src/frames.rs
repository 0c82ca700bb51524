//! Postgres' messages, cut out of a stream of bytes.
//!
//! **Source:** Postgres documentation, "Frontend/Backend Protocol", message formats of protocol 3.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes that arrived, handed out message by message.
#[derive(Debug)]
pub(crate) struct Frames {
    buffer: BytesMut,
    /// The first messages of a client have no tag.
    tagged: bool,
}

/// One whole message, as it was on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Its type byte; `None` for the messages that open a connection.
    pub(crate) tag: Option<u8>,
    pub(crate) bytes: Bytes,
}

/// What a client may say first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// "Do you speak TLS?" or "… GSSAPI?": answered by one byte.
    Encryption,
    /// "Cancel what another connection does": nothing is answered.
    Cancel,
    /// The start of a session.
    Startup,
}

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;

impl Frames {
    pub(crate) fn of_client() -> Self {
        Self { buffer: BytesMut::new(), tagged: false }
    }

    pub(crate) fn of_server() -> Self {
        Self { buffer: BytesMut::new(), tagged: true }
    }

    /// Where to read more bytes into.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next whole message, if it has arrived.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let tag_size = usize::from(self.tagged);
        let mut length = self.buffer.get(tag_size..tag_size + 4)?;
        // The length counts itself; a smaller one is garbage, and is passed on as the server must judge it.
        let size = tag_size + usize::try_from(length.get_u32()).ok()?.max(4);
        if self.buffer.len() < size {
            return None;
        }
        let bytes = self.buffer.split_to(size).freeze();
        let tag = if self.tagged { bytes.first().copied() } else { None };
        let frame = Frame { tag, bytes };
        if frame.opening() == Some(Opening::Startup) {
            self.tagged = true;
        }
        Some(frame)
    }
}

impl Frame {
    /// What an untagged message opens.
    pub(crate) fn opening(&self) -> Option<Opening> {
        if self.tag.is_some() {
            return None;
        }
        let code = self.bytes.get(4..8).map(|mut code| code.get_u32());
        Some(match code {
            Some(SSL_REQUEST | GSSENC_REQUEST) => Opening::Encryption,
            Some(CANCEL_REQUEST) => Opening::Cancel,
            Some(_) | None => Opening::Startup,
        })
    }

    /// The zero-terminated strings that a message starts with, after `skip` bytes of its body.
    pub(crate) fn strings<const N: usize>(&self, skip: usize) -> [String; N] {
        let body = self.bytes.get(5 + skip..).unwrap_or_default();
        let mut strings =
            body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        std::array::from_fn(|_| strings.next().unwrap_or_default())
    }

    /// The first byte of the body: for `Close`, whether a statement or a portal is meant.
    pub(crate) fn kind(&self) -> Option<u8> {
        self.bytes.get(5).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTUP: &[u8] = b"\0\0\0\x08\0\x03\0\0";
    const SSL: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";
    const QUERY: &[u8] = b"Q\0\0\0\x0dSELECT 1\0";
    const PARSE: &[u8] = b"P\0\0\0\x12name\0SELECT\0\0\0";

    #[test]
    fn messages_come_out_whole_however_the_bytes_arrive() {
        let stream = [SSL, STARTUP, QUERY, PARSE].concat();
        for step in 1..=stream.len() {
            let mut frames = Frames::of_client();
            let mut seen = Vec::new();
            for bytes in stream.chunks(step) {
                frames.buffer().extend_from_slice(bytes);
                seen.extend(std::iter::from_fn(|| frames.next()));
            }
            let tags: Vec<_> = seen.iter().map(|frame| frame.tag).collect();
            assert_eq!(tags, [None, None, Some(b'Q'), Some(b'P')], "in steps of {step}");
            assert_eq!(seen[0].opening(), Some(Opening::Encryption));
            assert_eq!(seen[1].opening(), Some(Opening::Startup));
            assert_eq!(seen[2].strings(0), ["SELECT 1"]);
            assert_eq!(seen[3].strings(0), ["name", "SELECT"]);
            let whole: Vec<_> = seen.iter().flat_map(|frame| frame.bytes.clone()).collect();
            assert_eq!(whole, stream, "nothing lost, nothing added");
        }
    }

    #[test]
    fn an_impossible_length_neither_panics_nor_blocks() {
        let mut frames = Frames::of_server();
        frames.buffer().extend_from_slice(b"Z\0\0\0\0rest");
        assert_eq!(frames.next().unwrap().bytes.as_ref(), b"Z\0\0\0\0");
    }
}

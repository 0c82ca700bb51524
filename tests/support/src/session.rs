//! What one client is saying: its messages put together to requests, each with the statements it runs.

use std::{collections::HashMap, mem};

use bytes::BytesMut;

use crate::frames::{Frame, Opening};

/// Follows the client's side of a connection. It only reads; every message is passed on in a [`Request`].
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// SQL by the name of the prepared statement; the unnamed one is `""`.
    prepared: HashMap<String, String>,
    /// SQL by the name of the portal.
    portals: HashMap<String, String>,
    open: Request,
}

/// Messages that belong together: they reach the server together or not at all.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) bytes: BytesMut,
    /// The statements that it runs, in order. Preparing one is not running it.
    pub(crate) statements: Vec<String>,
    pub(crate) answer: Answer,
}

/// How the server's answer to a request ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Answer {
    /// There is none.
    #[default]
    None,
    /// With `ReadyForQuery`: what was to be committed is.
    Ready,
    /// With the end of a statement: the client asked for it by a `Flush`, and the transaction is still open.
    Statement,
}

impl Answer {
    /// Whether the server's message with this tag ends it.
    pub(crate) fn ends_with(self, tag: Option<u8>) -> bool {
        match self {
            Self::None => false,
            Self::Ready => tag == Some(b'Z'),
            // CommandComplete, EmptyQueryResponse, PortalSuspended, ErrorResponse
            Self::Statement => matches!(tag, Some(b'C' | b'I' | b's' | b'E')),
        }
    }
}

impl Session {
    /// Takes the client's next message; answers the request that it completes.
    pub(crate) fn take(&mut self, frame: &Frame) -> Option<Request> {
        self.open.bytes.extend_from_slice(&frame.bytes);
        let answer = match frame.tag {
            None if frame.opening() == Some(Opening::Startup) => Answer::Ready,
            Some(b'Q') => {
                let [sql] = frame.strings(0);
                self.open.statements.push(sql);
                Answer::Ready
            }
            Some(b'P') => {
                let [name, sql] = frame.strings(0);
                self.prepared.insert(name, sql);
                return None;
            }
            Some(b'B') => {
                let [portal, name] = frame.strings(0);
                let sql = self.prepared.get(&name).cloned().unwrap_or_default();
                self.portals.insert(portal, sql);
                return None;
            }
            Some(b'E') => {
                let [portal] = frame.strings(0);
                self.open.statements.extend(self.portals.get(&portal).cloned());
                return None;
            }
            Some(b'C') => {
                let [name] = frame.strings(1);
                let names = if frame.kind() == Some(b'S') { &mut self.prepared } else { &mut self.portals };
                names.remove(&name);
                return None;
            }
            Some(b'D') => return None,
            Some(b'H') if self.open.statements.is_empty() => Answer::None,
            Some(b'H') => Answer::Statement,
            // Sync and FunctionCall.
            Some(b'S' | b'F') => Answer::Ready,
            // Passwords, the data of a COPY, Terminate, Cancel: passed on at once.
            Some(_) | None => Answer::None,
        };
        Some(Request { answer, ..mem::take(&mut self.open) })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn frame(tag: u8, body: &[u8]) -> Frame {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        Frame { tag: Some(tag), bytes: Bytes::from([&[tag][..], &length, body].concat()) }
    }

    fn run(session: &mut Session, frames: &[Frame]) -> Vec<Request> {
        frames.iter().filter_map(|frame| session.take(frame)).collect()
    }

    #[test]
    fn a_prepared_statement_is_recognised_each_time_it_runs() {
        let mut session = Session::default();
        let prepare = [frame(b'P', b"s1\0INSERT INTO t\0\0\0"), frame(b'D', b"Ss1\0"), frame(b'S', b"")];
        let prepared = run(&mut session, &prepare);
        assert_eq!(prepared.len(), 1);
        assert!(prepared[0].statements.is_empty(), "preparing is not running");

        let execute = [frame(b'B', b"\0s1\0\0\0"), frame(b'E', b"\0\0\0\0\0"), frame(b'S', b"")];
        for _ in 0..2 {
            let requests = run(&mut session, &execute);
            assert_eq!(requests.len(), 1);
            assert_eq!(requests[0].statements, ["INSERT INTO t"]);
            assert_eq!(requests[0].answer, Answer::Ready);
        }
    }

    #[test]
    fn a_closed_statement_is_forgotten_and_its_name_can_be_used_again() {
        let mut session = Session::default();
        let first = [frame(b'P', b"s\0old\0\0\0"), frame(b'C', b"Ss\0"), frame(b'P', b"s\0new\0\0\0")];
        let again = [frame(b'B', b"p\0s\0\0\0"), frame(b'E', b"p\0\0\0\0\0"), frame(b'S', b"")];
        let requests = run(&mut session, &[&first[..], &again].concat());
        assert_eq!(requests[0].statements, ["new"]);
    }

    #[test]
    fn a_flush_ends_a_request_whose_transaction_stays_open() {
        let mut session = Session::default();
        let frames = [frame(b'P', b"\0UPDATE t\0\0\0"), frame(b'B', b"\0\0\0\0"), frame(b'E', b"\0\0\0\0\0")];
        assert!(run(&mut session, &frames).is_empty());
        let flushed = session.take(&frame(b'H', b"")).unwrap();
        assert_eq!((flushed.answer, flushed.statements.len()), (Answer::Statement, 1));
        let synced = session.take(&frame(b'S', b"")).unwrap();
        assert_eq!((synced.answer, synced.statements.len()), (Answer::Ready, 0));
    }
}

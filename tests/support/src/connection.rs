//! One proxied connection: bytes both ways, and the faults of the plan in between.

use std::{collections::VecDeque, io};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

use crate::{
    frames::{Frame, Frames, Opening},
    plan::{Fault, Held, SharedPlan, Strike},
    session::{Answer, Request, Session},
};

/// The state of the network between a proxy's clients and its server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// Nothing moves in either direction.
    pub(crate) frozen: bool,
    /// New connections are closed at once.
    pub(crate) refuse: bool,
    /// Counts the calls of `cut_all`; a connection ends when it changes.
    pub(crate) cuts: u64,
}

/// A client and the server it is connected to.
pub(crate) struct Connection {
    from_client: OwnedReadHalf,
    to_client: OwnedWriteHalf,
    from_server: OwnedReadHalf,
    to_server: OwnedWriteHalf,
    traffic: Traffic,
    weather: watch::Receiver<Weather>,
    /// The count of cuts when it was accepted.
    cuts: u64,
}

/// Everything about a connection but its sockets.
struct Traffic {
    plan: SharedPlan,
    session: Session,
    client_frames: Frames,
    server_frames: Frames,
    to_client: BytesMut,
    to_server: BytesMut,
    /// The answers that the server still owes, oldest first.
    owed: VecDeque<Owed>,
    held: Option<(Request, Strike, Held)>,
    client: Client,
    /// Close both sides once the client has what it is due.
    closing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Connected,
    /// Gone by itself, or cut off by the plan: nothing more comes from it, nothing more can be told it.
    Gone,
}

/// An answer to come, and what is to happen to it.
struct Owed {
    answer: Answer,
    fate: Fate,
}

enum Fate {
    Deliver,
    /// Swallowed; both sides are closed at its end.
    Lose(Strike),
    /// Swallowed; both sides stay open.
    Keep(Strike),
    /// Delivered, if there is still somebody; the release waits for its end.
    Released(#[expect(dead_code, reason = "dropped when the answer has come; the drop is the message")] Held),
}

impl Connection {
    pub(crate) fn new(
        client: TcpStream,
        server: TcpStream,
        plan: SharedPlan,
        weather: watch::Receiver<Weather>,
        cuts: u64,
    ) -> Self {
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let traffic = Traffic {
            plan,
            session: Session::default(),
            client_frames: Frames::of_client(),
            server_frames: Frames::of_server(),
            to_client: BytesMut::new(),
            to_server: BytesMut::new(),
            owed: VecDeque::new(),
            held: None,
            client: Client::Connected,
            closing: false,
        };
        Self { from_client, to_client, from_server, to_server, traffic, weather, cuts }
    }

    pub(crate) async fn run(mut self) {
        let traffic = &mut self.traffic;
        while !traffic.is_over() {
            let Weather { frozen, cuts, .. } = *self.weather.borrow_and_update();
            if cuts != self.cuts {
                return;
            }
            if traffic.client == Client::Gone {
                drop(self.to_client.shutdown().await);
            }
            let connected = traffic.client == Client::Connected;
            let released = released(traffic.held.as_ref());
            tokio::select! {
                changed = self.weather.changed() => if changed.is_err() { return },
                () = released, if !frozen => traffic.release(),
                read = self.from_client.read_buf(traffic.client_frames.buffer()), if connected && !frozen => {
                    if is_end(&read) { traffic.client = Client::Gone; }
                    traffic.hear_client();
                }
                read = self.from_server.read_buf(traffic.server_frames.buffer()), if !traffic.closing && !frozen => {
                    if is_end(&read) { traffic.closing = true; }
                    traffic.hear_server();
                }
                written = self.to_client.write_buf(&mut traffic.to_client),
                    if connected && !traffic.to_client.is_empty() && !frozen => {
                    if is_end(&written) { traffic.client = Client::Gone; }
                }
                written = self.to_server.write_buf(&mut traffic.to_server),
                    if !traffic.to_server.is_empty() && !frozen => {
                    if is_end(&written) { traffic.closing = true; }
                }
            }
        }
    }
}

/// A side that is closed and a side that is broken are the same: nothing more comes from there.
fn is_end(moved: &io::Result<usize>) -> bool {
    matches!(moved, Ok(0) | Err(_))
}

/// Comes true with the release of the held statement; never where none is held.
fn released(held: Option<&(Request, Strike, Held)>) -> impl Future<Output = ()> + use<> {
    let progress = held.map(|(_, strike, _)| strike.progress.subscribe());
    async {
        match progress {
            // The connection holds a sender, so the channel cannot close.
            Some(mut progress) => drop(progress.wait_for(|progress| progress.released).await),
            None => std::future::pending().await,
        }
    }
}

impl Traffic {
    fn is_over(&self) -> bool {
        match self.client {
            Client::Connected => self.closing && self.to_client.is_empty(),
            // What the client sent still lands, and what a test waits for still happens.
            Client::Gone => {
                self.closing || (self.to_server.is_empty() && self.held.is_none() && !self.is_watched())
            }
        }
    }

    fn is_watched(&self) -> bool {
        self.owed.iter().any(|owed| match owed.fate {
            Fate::Deliver => false,
            Fate::Lose(_) | Fate::Keep(_) | Fate::Released(_) => true,
        })
    }

    /// Passes on what the client said, up to a statement that is held.
    fn hear_client(&mut self) {
        while self.held.is_none() && !self.closing {
            let Some(frame) = self.client_frames.next() else { return };
            if frame.opening() == Some(Opening::Encryption) {
                // What is encrypted cannot be read: "no", and the client goes on in the clear.
                self.to_client.extend_from_slice(b"N");
            } else if let Some(request) = self.session.take(&frame) {
                match self.plan.judge(&request.statements) {
                    None => self.pass(&request, Fate::Deliver),
                    Some((fault, strike)) => self.strike(request, fault, strike),
                }
            }
        }
    }

    fn strike(&mut self, request: Request, fault: Fault, strike: Strike) {
        match fault {
            Fault::LoseRequest => {
                strike.strike();
                self.closing = true;
            }
            Fault::LoseReply => self.pass(&request, Fate::Lose(strike)),
            Fault::KeepReply => self.pass(&request, Fate::Keep(strike)),
            Fault::Hold | Fault::Late => {
                let held = strike.hold();
                self.held = Some((request, strike, held));
                if fault == Fault::Late {
                    self.client = Client::Gone;
                    self.to_client.clear();
                }
            }
        }
    }

    fn pass(&mut self, request: &Request, fate: Fate) {
        self.to_server.extend_from_slice(&request.bytes);
        let owed = Owed { answer: request.answer, fate };
        match (&owed.answer, &owed.fate) {
            // A flushed statement needs no bookkeeping unless somebody waits for its end.
            (Answer::None, _) | (Answer::Statement, Fate::Deliver) => {}
            (Answer::Ready | Answer::Statement, _) => self.owed.push_back(owed),
        }
    }

    /// Sends the held statement, and hears what its client said after it.
    fn release(&mut self) {
        if let Some((request, _, held)) = self.held.take() {
            self.pass(&request, Fate::Released(held));
        }
        self.hear_client();
    }

    /// Passes on what the server said, up to an answer that is lost.
    fn hear_server(&mut self) {
        while let Some(frame) = self.server_frames.next() {
            self.answer(&frame);
        }
    }

    fn answer(&mut self, frame: &Frame) {
        let lost = matches!(self.owed.front(), Some(Owed { fate: Fate::Lose(_) | Fate::Keep(_), .. }));
        if self.client == Client::Connected && !lost {
            self.to_client.extend_from_slice(&frame.bytes);
        }
        if !self.owed.front().is_some_and(|owed| owed.answer.ends_with(frame.tag)) {
            return;
        }
        match self.owed.pop_front().map(|owed| owed.fate) {
            Some(Fate::Lose(strike)) => {
                strike.strike();
                self.closing = true;
            }
            Some(Fate::Keep(strike)) => strike.strike(),
            Some(Fate::Deliver | Fate::Released(_)) | None => {}
        }
    }
}

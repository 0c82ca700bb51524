//! The payment gateway itself: somebody else's server, whose ledger outlives every process of ours.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{Json, Router, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use super::gateway::{Charge, Order};

/// A gateway over HTTP, on a free loopback port; gone when dropped.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    desk: Arc<watch::Sender<Desk>>,
    _server: JoinSet<io::Result<()>>,
}

#[derive(Default)]
struct Desk {
    mood: Mood,
    ledger: Vec<Entry>,
}

struct Entry {
    charge: Charge,
    key: Option<String>,
}

/// How it treats its callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Books and answers.
    #[default]
    Prompt,
    /// Books nothing and says so.
    Closed,
    /// Books at once and answers when it is prompt again.
    SlowToAnswer,
}

impl Provider {
    /// Opens.
    ///
    /// # Errors
    /// If there is no free port.
    pub(crate) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, desk) = (listener.local_addr()?, Arc::new(watch::Sender::new(Desk::default())));
        let app = Router::new().route("/charges", post(charge)).with_state(Arc::clone(&desk));
        let mut server = JoinSet::new();
        server.spawn(async { axum::serve(listener, app).await });
        Ok(Self { address, desk, _server: server })
    }

    /// From now on it is in this mood, with callers who wait too.
    pub(crate) fn is(&self, mood: Mood) {
        self.desk.send_modify(|desk| desk.mood = mood);
    }

    /// Waits until this order is booked.
    pub(crate) async fn has_booked(&self, reference: &str) {
        until(&self.desk, |desk| desk.ledger.iter().any(|entry| entry.charge.reference == reference)).await;
    }

    /// How often this order was charged: what all of this is about.
    pub(crate) fn charges(&self, reference: &str) -> usize {
        self.desk.borrow().ledger.iter().filter(|entry| entry.charge.reference == reference).count()
    }
}

async fn until(desk: &watch::Sender<Desk>, holds: impl FnMut(&Desk) -> bool) {
    // The caller holds the sender, so the channel is open.
    drop(desk.subscribe().wait_for(holds).await);
}

async fn charge(
    State(desk): State<Arc<watch::Sender<Desk>>>,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Charge>), StatusCode> {
    let mood = desk.borrow().mood;
    match mood {
        Mood::Prompt | Mood::SlowToAnswer => {}
        Mood::Closed => return Err(StatusCode::SERVICE_UNAVAILABLE),
    }
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let mut booked = None;
    desk.send_modify(|desk| booked = Some(desk.book(&order, key)));
    if mood == Mood::SlowToAnswer {
        until(&desk, |desk| desk.mood == Mood::Prompt).await;
    }
    booked.map(|charge| (StatusCode::CREATED, Json(charge))).ok_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl Desk {
    fn book(&mut self, order: &Order, key: Option<String>) -> Charge {
        if let Some(entry) = self.ledger.iter().find(|entry| key.is_some() && entry.key == key) {
            return entry.charge.clone();
        }
        let id = format!("ch_{}", self.ledger.len() + 1);
        let charge = Charge { id, reference: order.reference.clone(), amount: order.amount };
        self.ledger.push(Entry { charge: charge.clone(), key });
        charge
    }
}

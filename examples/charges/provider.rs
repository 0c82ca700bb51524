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
    /// The orders of all calls that arrived.
    calls: Vec<String>,
    /// How many callers are still on the line.
    callers: usize,
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
    /// Books and answers when it is prompt again, if the caller is still there.
    SlowToBook,
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

    /// Waits until a call for this order has arrived.
    pub(crate) async fn was_called(&self, reference: &str) {
        until(&self.desk, |desk| desk.calls.iter().any(|called| called == reference)).await;
    }

    /// Waits until this order is booked.
    pub(crate) async fn has_booked(&self, reference: &str) {
        until(&self.desk, |desk| desk.ledger.iter().any(|entry| entry.charge.reference == reference)).await;
    }

    /// Waits until every caller has its answer or has gone.
    pub(crate) async fn has_no_callers(&self) {
        until(&self.desk, |desk| desk.callers == 0).await;
    }

    /// How often this order was charged: what all of this is about.
    pub(crate) fn charges(&self, reference: &str) -> usize {
        self.desk.borrow().ledger.iter().filter(|entry| entry.charge.reference == reference).count()
    }

    /// Looks a charge up by our own reference, as a reconciler does.
    pub(crate) fn find(&self, reference: &str) -> Option<Charge> {
        self.desk
            .borrow()
            .ledger
            .iter()
            .map(|entry| &entry.charge)
            .find(|charge| charge.reference == reference)
            .cloned()
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
    let _on_the_line = Caller::new(&desk, &order);
    let mood = desk.borrow().mood;
    match mood {
        Mood::Prompt | Mood::SlowToAnswer => {}
        Mood::Closed => return Err(StatusCode::SERVICE_UNAVAILABLE),
        Mood::SlowToBook => until(&desk, |desk| desk.mood == Mood::Prompt).await,
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

/// A call that was not answered yet. Where the caller goes, the handler is dropped, and this with it.
struct Caller(Arc<watch::Sender<Desk>>);

impl Caller {
    fn new(desk: &Arc<watch::Sender<Desk>>, order: &Order) -> Self {
        desk.send_modify(|desk| {
            desk.calls.push(order.reference.clone());
            desk.callers += 1;
        });
        Self(Arc::clone(desk))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.send_modify(|desk| desk.callers -= 1);
    }
}

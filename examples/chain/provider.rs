//! The gateway: somebody else's server. It knows its callers by their keys, and its ledger is a file.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Write as _,
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::Duration,
};

use axum::{Json, Router, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use idem::BoxError;
use serde::{Deserialize, Serialize};
use tokio::{net::TcpListener, sync::Mutex, time::sleep};

use super::gateway::{Charge, Order};

/// What it takes to move money, before and after it is booked: time for others to die in.
const EACH_WAY: Duration = Duration::from_millis(5);

/// A line of the ledger.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) charge: Charge,
}

struct Ledger {
    file: File,
    charges: BTreeMap<String, Charge>,
}

/// Serves until it is killed.
///
/// # Errors
/// If the ledger cannot be opened or the port is taken.
pub(crate) async fn serve(ledger: &Path, listen: SocketAddr, ready: fn(SocketAddr)) -> Result<(), BoxError> {
    let ledger = Arc::new(Mutex::new(Ledger::open(ledger)?));
    let routes = Router::new().route("/charges", post(charge)).with_state(ledger);
    let listener = TcpListener::bind(listen).await?;
    ready(listener.local_addr()?);
    Ok(axum::serve(listener, routes).await?)
}

async fn charge(
    State(ledger): State<Arc<Mutex<Ledger>>>,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Charge>), StatusCode> {
    let key =
        headers.get("idempotency-key").and_then(|key| key.to_str().ok()).ok_or(StatusCode::BAD_REQUEST)?;
    sleep(EACH_WAY).await;
    let charge = ledger.lock().await.book(key, &order).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    sleep(EACH_WAY).await;
    Ok((StatusCode::CREATED, Json(charge)))
}

impl Ledger {
    fn open(path: &Path) -> Result<Self, BoxError> {
        let (entries, whole) = read(path)?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        // What was torn by a crash was never confirmed.
        file.set_len(whole)?;
        Ok(Self { file, charges: entries.into_iter().map(|it| (it.key, it.charge)).collect() })
    }

    fn book(&mut self, key: &str, order: &Order) -> Result<Charge, BoxError> {
        if let Some(charge) = self.charges.get(key) {
            return Ok(charge.clone());
        }
        let id = format!("ch_{}", self.charges.len() + 1);
        let charge = Charge { id, reference: order.reference.clone(), amount: order.amount };
        let mut line = serde_json::to_vec(&Entry { key: key.to_owned(), charge: charge.clone() })?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.charges.insert(key.to_owned(), charge.clone());
        Ok(charge)
    }
}

/// The entries of a ledger, and the length of its whole lines.
///
/// # Errors
/// If a whole line is none of ours.
pub(crate) fn read(path: &Path) -> Result<(Vec<Entry>, u64), BoxError> {
    let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let entries = text.get(..whole).unwrap_or_default().lines().map(serde_json::from_str);
    Ok((entries.collect::<Result<_, _>>()?, u64::try_from(whole)?))
}

//! The client: one key an operation, on disk before it is first sent, and the same until it is answered.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Write as _,
    net::SocketAddr,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use idem::BoxError;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{
    broker::NOWHERE,
    client::{self, Got},
    gateway::Order,
};

/// How many requests of one client are under way at once.
const AT_ONCE: usize = 8;
/// The pause after a failure; the longest that a server may ask for.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a client was answered, by what it asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) reference: String,
    pub(crate) key: String,
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Asks for these operations until each is answered, and goes on where an earlier process was killed.
///
/// # Errors
/// If it is told that an operation can never be done, or the files cannot be written.
pub(crate) async fn run(
    apis: &[SocketAddr],
    folder: &Path,
    operations: Range<usize>,
    ready: fn(SocketAddr),
) -> Result<(), BoxError> {
    let keys = keys(&folder.join(format!("keys-{}", operations.start)), operations.clone())?;
    let path = answers_file(folder, operations.start);
    let answered = answers(&path)?;
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    file.set_len(whole(&path)?)?;
    ready(NOWHERE);
    let left =
        keys.into_iter().filter(|(reference, _)| !answered.iter().any(|it| it.reference == *reference));
    let mut asked =
        stream::iter(left.map(|(reference, key)| ask(apis, reference, key))).buffer_unordered(AT_ONCE);
    while let Some(answer) = asked.try_next().await? {
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        file.write_all(&line)?;
    }
    // The supervisor reads the file; this process waits to be ended.
    std::future::pending().await
}

/// Asks for one operation, over and over with its one key.
///
/// # Errors
/// If the answer says that asking again is of no use.
pub(crate) async fn ask(apis: &[SocketAddr], reference: String, key: String) -> Result<Answer, BoxError> {
    let order = Order { reference: reference.clone(), amount: 1000, currency: "usd".to_owned() };
    let body = serde_json::to_vec(&order)?;
    for api in apis.iter().cycle() {
        let request = Request::post("/charges")
            .header("host", "shop")
            .header("content-type", "application/json")
            .header("idempotency-key", &key)
            .body(body.clone().into())?;
        match timeout(Duration::from_secs(10), client::send(*api, request)).await {
            Ok(Ok(got)) if got.status == 201 => {
                let body = String::from_utf8(got.body.to_vec())?;
                return Ok(Answer { reference, key, status: got.status, body });
            }
            Ok(Ok(got)) if matches!(got.status, 408 | 409 | 425 | 429 | 500..) => {
                sleep(asked_for(&got)).await;
            }
            Ok(Ok(got)) => return Err(format!("{reference}: status {} {}", got.status, got.problem()).into()),
            Ok(Err(_)) | Err(_) => sleep(PAUSE).await,
        }
    }
    Err("no API to ask".into())
}

fn asked_for(got: &Got) -> Duration {
    let seconds = got.headers.get("retry-after").and_then(|it| it.to_str().ok()?.parse().ok());
    seconds.map_or(PAUSE, Duration::from_secs).min(LONGEST_PAUSE)
}

/// The keys of these operations: those that were written by an earlier process, else new ones, on disk when this returns.
fn keys(path: &Path, operations: Range<usize>) -> Result<BTreeMap<String, String>, BoxError> {
    if !path.exists() {
        let keys: BTreeMap<_, _> =
            operations.map(|number| (format!("order-{number:05}"), Uuid::new_v4().to_string())).collect();
        let draft = path.with_extension("draft");
        let mut file = File::create(&draft)?;
        file.write_all(&serde_json::to_vec(&keys)?)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        File::open(path.parent().ok_or("a file in a folder")?)?.sync_all()?;
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

pub(crate) fn answers_file(folder: &Path, first: usize) -> PathBuf {
    folder.join(format!("answers-{first}"))
}

/// What a client has been answered so far.
///
/// # Errors
/// If a whole line is none of ours.
pub(crate) fn answers(path: &Path) -> Result<Vec<Answer>, BoxError> {
    let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    Ok(text.get(..whole).unwrap_or_default().lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// The length of a file's whole lines: the last may have been torn.
fn whole(path: &Path) -> Result<u64, BoxError> {
    Ok(u64::try_from(fs::read(path)?.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1))?)
}

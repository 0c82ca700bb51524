//! An HTTP client that can be told exactly when to hang up: one connection per request, gone when its future is dropped.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use idem::BoxError;
use serde_json::Value;
use tokio::net::TcpStream;

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Got {
    /// Which of the library's problems it is, such as `in-progress`; empty for any other answer.
    pub(crate) fn problem(&self) -> String {
        let document: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let kind = document.get("type").and_then(Value::as_str).unwrap_or_default();
        kind.strip_prefix("urn:idem:problem:").unwrap_or_default().to_owned()
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.headers.contains_key("idempotent-replayed")
    }

    /// The headers that a replay must repeat: all but the time of day and the marker of the replay itself.
    pub(crate) fn lasting_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.remove("date");
        headers.remove("idempotent-replayed");
        headers
    }
}

/// Sends one request over a connection of its own and reads the whole answer.
///
/// # Errors
///
/// If the connection is refused or breaks: whether the other side acted is not known then.
pub(crate) async fn send(server: SocketAddr, request: Request<Full<Bytes>>) -> Result<Got, BoxError> {
    let stream = TcpStream::connect(server).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answer = async move {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Got { status: parts.status.as_u16(), headers: parts.headers, body })
    };
    // The connection ends when the sender is dropped; what broke it is in the answer.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}

//! Handlers that know nothing of idempotency keys, each on a route with the policy that it deserves.

use axum::{
    Json, Router,
    body::Body,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    response::Response,
    routing::post,
};
use idem::{BoxError, Engine, IdempotencyLayer, MemoryStore, Policy, Scope};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Writes nothing but rows, so it may run again: a 5xx releases the key.
async fn note(Json(note): Json<Value>) -> (StatusCode, Json<Value>) {
    if note == json!("during maintenance") {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!("later")));
    }
    (StatusCode::CREATED, Json(note))
}

/// Calls somebody outside, so it is started once: whatever it answers is kept, an error too.
async fn text_message() -> (StatusCode, &'static str) {
    (StatusCode::BAD_GATEWAY, "it may have been sent")
}

/// Reads; needs no key.
async fn list() -> Json<Value> {
    Json(json!([]))
}

#[derive(Clone)]
struct Caller {
    tenant: u64,
}

/// Stands for authentication, which is further out than the layer.
async fn authenticate(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Caller { tenant: 7 });
    next.run(request).await
}

fn app() -> Router {
    let engine = Engine::new(MemoryStore::new());
    let resumable = IdempotencyLayer::new(engine, Policy::resumable(), |parts| {
        Scope::new(parts.extensions.get::<Caller>()?.tenant).ok()
    });
    let opaque = resumable.clone().policy(Policy::opaque()).required();
    // On the method or the route, not on the router: unknown paths are not to be claimed.
    Router::new()
        .route("/notes", post(note).layer(resumable).get(list))
        .route("/text-messages", post(text_message).layer(opaque))
        .layer(middleware::from_fn(authenticate))
}

/// Posts a body with a key; the answer's status, and whether it was a replay.
async fn send(app: &Router, path: &str, key: Option<&str>, body: Value) -> Result<(u16, bool), BoxError> {
    let request = Request::post(path).header("content-type", "application/json");
    let request = key.into_iter().fold(request, |request, key| request.header("idempotency-key", key));
    let answer = app.clone().oneshot(request.body(Body::from(body.to_string()))?).await?;
    Ok((answer.status().as_u16(), answer.headers().contains_key("idempotent-replayed")))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let app = app();

    assert_eq!(send(&app, "/notes", Some("note-1"), json!("milk")).await?, (201, false));
    assert_eq!(send(&app, "/notes", Some("note-1"), json!("milk")).await?, (201, true));
    assert_eq!(
        send(&app, "/notes", Some("note-1"), json!("oat milk")).await?,
        (422, false),
        "another request"
    );
    assert_eq!(send(&app, "/notes", None, json!("milk")).await?, (201, false), "here a key is not required");

    // Resumable: the 503 was no ending, so the handler runs again. Opaque: the first answer is the only one.
    assert_eq!(send(&app, "/notes", Some("note-2"), json!("during maintenance")).await?, (503, false));
    assert_eq!(send(&app, "/notes", Some("note-2"), json!("during maintenance")).await?, (503, false));
    assert_eq!(send(&app, "/text-messages", Some("text-1"), json!("paid")).await?, (502, false));
    assert_eq!(send(&app, "/text-messages", Some("text-1"), json!("paid")).await?, (502, true));
    assert_eq!(send(&app, "/text-messages", None, json!("paid")).await?, (400, false), "here it is");
    Ok(())
}

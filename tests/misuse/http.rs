//! The layer asks whose keys they are, and a handler that promises a `Reply` has to commit one.

use idem::{Engine, IdempotencyLayer, Idempotent, Policy, Problem, Reply, Scope, StoredResponse};

pub(crate) fn says_whose_keys_they_are(engine: Engine) -> IdempotencyLayer {
    #[cfg(misuse)]
    let shared = IdempotencyLayer::new(engine.clone(), Policy::opaque()); //~ E0061
    IdempotencyLayer::new(engine, Policy::opaque(), |_| Scope::new("the only tenant").ok())
}

pub(crate) fn derives_a_scope_not_text(engine: Engine) -> IdempotencyLayer {
    #[cfg(misuse)]
    let text = IdempotencyLayer::new(engine.clone(), Policy::opaque(), |_| "the only tenant"); //~ E0308
    IdempotencyLayer::new(engine, Policy::opaque(), |_| Scope::new("the only tenant").ok())
}

pub(crate) async fn answers_with_what_is_committed(Idempotent(op): Idempotent) -> Result<Reply, Problem> {
    #[cfg(misuse)]
    return Ok("charged".into()); //~ E0277
    #[cfg(not(misuse))]
    Ok(op.complete(StoredResponse::new(201, "charged")?).await?.into())
}

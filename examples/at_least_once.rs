//! A message that may be doubled but never lost: a login code.
//!
//! Two codes are a nuisance, none is a locked-out customer. So the effect is natural: it is sent again whenever nobody knows
//! whether it went out, and the operation is never in doubt. The opposite is `at_most_once.rs`.
//!
//! ```text
//! cargo run --example at_least_once
//! ```

#![expect(clippy::print_stdout, reason = "it shows what happens")]
#![expect(clippy::unused_async, reason = "a gateway would wait")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use idem::{
    Answer, BoxError, Completed, Effect, Engine, Fingerprint, KeyId, MemoryStore, Operation, Policy, Scope,
    StoredResponse,
};

/// A gateway whose first answer is lost on the way back.
#[derive(Clone, Default)]
struct Gateway(Arc<AtomicUsize>);

impl Gateway {
    async fn send(&self, _text: &str) -> Result<(), std::io::Error> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(std::io::Error::other("the connection broke after the message was sent"));
        }
        Ok(())
    }
}

async fn login(mut op: Operation, gateway: Gateway) -> Result<Completed, BoxError> {
    // Drawn once, recorded, and the same in every message: an older one that arrives late is as good.
    let code: u32 = op.effect("code", Effect::natural(), async |_| Ok(draw())).await?;
    op.effect("message", Effect::natural(), async |_| {
        Ok(gateway.send(&format!("your code is {code}")).await?)
    })
    .await?;
    Ok(op.complete(StoredResponse::new(202, "sent")?).await?)
}

/// Six digits.
fn draw() -> u32 {
    (uuid::Uuid::new_v4().as_u128() % 1_000_000) as u32
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (engine, gateway) = (Engine::new(MemoryStore::new()), Gateway::default());
    let id = KeyId::new(Scope::new("tenant 7")?, "login-42".parse()?);
    let ask = || {
        let (engine, id, gateway) = (engine.clone(), id.clone(), gateway.clone());
        let same = Fingerprint::of("login").json_body(br#"{"user":42}"#).finish();
        async move { engine.run(id, same, &Policy::resumable(), |op| login(op, gateway)).await }
    };

    let Err(first) = ask().await else { panic!("the gateway's answer was lost") };
    println!("first request:  {first}");
    let Answer::Executed(answer) = ask().await? else { panic!("it is sent again, at once") };
    println!("second request: {} {}", answer.status(), String::from_utf8_lossy(answer.body()));
    let Answer::Replayed(again) = ask().await? else { panic!("it is done") };
    assert_eq!(answer, again);
    assert_eq!(gateway.0.load(Ordering::SeqCst), 2, "two messages with one code");
    Ok(())
}

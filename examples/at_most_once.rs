//! A message that may be lost but never doubled: "your order was charged", by SMS.
//!
//! The gateway takes no key. When its answer is lost, nobody knows whether the message went out, and nothing sends it
//! again: the operation waits until somebody has looked. The opposite is `at_least_once.rs`.
//!
//! ```text
//! cargo run --example at_most_once
//! ```

#![expect(clippy::print_stdout, reason = "it shows what happens")]
#![expect(clippy::unused_async, reason = "a gateway would wait")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem::{
    Answer, BoxError, Completed, Doubt, Effect, Engine, Fingerprint, KeyId, Maintain, ManualClock,
    MemoryStore, Operation, Policy, Scope, StoredResponse,
    policy::{LEASE, RETENTION},
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

async fn notify(mut op: Operation, gateway: Gateway) -> Result<Completed, BoxError> {
    op.effect("sms", Effect::at_most_once(), async |_| Ok(gateway.send("you were charged").await?)).await?;
    Ok(op.complete(StoredResponse::new(202, "sent")?).await?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let clock = ManualClock::new(); // so that a lease can be over without waiting for it
    let (store, gateway) = (MemoryStore::with_clock(clock.clone()), Gateway::default());
    let engine = Engine::new(store.clone());
    let id = KeyId::new(Scope::new("tenant 7")?, "order-42".parse()?);
    let ask = || {
        let (engine, id, gateway) = (engine.clone(), id.clone(), gateway.clone());
        let same = Fingerprint::of("notify").json_body(br#"{"order":42}"#).finish();
        async move { engine.run(id, same, &Policy::resumable(), |op| notify(op, gateway)).await }
    };

    let Err(first) = ask().await else { panic!("the gateway's answer was lost") };
    println!("first request:  {first}");
    clock.advance(LEASE + Duration::from_mins(1));
    let Answer::InDoubt { .. } = ask().await? else { panic!("nothing is sent after a doubt") };
    println!("second request: in doubt, nothing was sent");

    // The gateway's list of messages says that it went out. A reconciler would look this up.
    let Some(seen) = store.find(&id).await? else { panic!("there is a record") };
    let decision = Doubt::of(&seen)?.happened("sms", &())?.resume()?;
    store.resolve(&seen, &decision, RETENTION).await?;
    let Answer::Executed(answer) = ask().await? else { panic!("it goes on from there") };
    println!("third request:  {} {}", answer.status(), String::from_utf8_lossy(answer.body()));
    assert_eq!(gateway.0.load(Ordering::SeqCst), 1, "one message");
    Ok(())
}

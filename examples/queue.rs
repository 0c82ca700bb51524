//! A queue consumer: every message has its effect once, however often the broker delivers it.
//!
//! No HTTP in it. The message's id is the key, the queue is the scope, and the engine's answer is a verdict for the broker.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use idem::{
    Answer, BoxError, Completed, Engine, Fingerprint, KeyId, MemoryStore, Operation, Policy, RunError, Scope,
    StoredResponse,
};

/// A message as a broker hands it over: at least once.
#[derive(Clone)]
struct Delivery {
    id: &'static str,
    body: &'static [u8],
}

/// What to tell the broker.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// Done, now or earlier: forget the message.
    Ack,
    /// Deliver it again after a while.
    Later(Duration),
    /// Put it aside for a person: another message used this id, or nobody knows whether it was paid.
    Park,
}

/// Where the money goes. It takes a key of its own, so that a payout which is asked for twice is made once: that is what
/// makes the work below safe to run again.
#[derive(Clone, Default)]
struct Bank {
    calls: Arc<AtomicUsize>,
    payouts: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Bank {
    fn pay(&self, amount: &str, key: &str) -> Result<(), BoxError> {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err("the bank does not answer".into());
        }
        let mut payouts = self.payouts.lock().map_err(|_| "the bank is closed")?;
        payouts.entry(key.to_owned()).or_insert_with(|| amount.to_owned());
        Ok(())
    }
}

/// The work on a message.
async fn pay(op: Operation, bank: Bank, message: Delivery) -> Result<Completed, BoxError> {
    bank.pay(str::from_utf8(message.body)?, message.id)?;
    Ok(op.complete(StoredResponse::new(204, "")?).await?)
}

async fn consume(engine: &Engine, bank: &Bank, message: Delivery) -> Result<Verdict, BoxError> {
    let id = KeyId::new(Scope::new("queue payouts")?, message.id.parse()?);
    let same = Fingerprint::of("queue payouts").body(message.body).finish();
    let bank = bank.clone();
    let work = move |op| pay(op, bank, message);
    Ok(match engine.run(id, same, &Policy::resumable(), work).await {
        // The answer is committed before the broker is told: a crash in between only means another delivery.
        Ok(Answer::Executed(_) | Answer::Replayed(_) | Answer::NotKept) => Verdict::Ack,
        Ok(Answer::InProgress { retry_after }) => Verdict::Later(retry_after),
        Ok(Answer::InDoubt { .. } | Answer::Mismatch) => Verdict::Park,
        Ok(Answer::Released) | Err(RunError::Work(_) | RunError::Panicked | RunError::Engine(_)) => {
            Verdict::Later(Duration::from_secs(1))
        }
    })
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (engine, bank) = (Engine::new(MemoryStore::new()), Bank::default());
    let message = Delivery { id: "message-1", body: b"1000" };

    // The work fails: the message comes again.
    assert_eq!(consume(&engine, &bank, message.clone()).await?, Verdict::Later(Duration::from_secs(1)));
    // Delivered again, it is paid.
    assert_eq!(consume(&engine, &bank, message.clone()).await?, Verdict::Ack);
    // Delivered once more, since the acknowledgement was lost: acknowledged, and the bank is not even asked.
    assert_eq!(consume(&engine, &bank, message).await?, Verdict::Ack);
    // Another message under the same id is a producer's mistake, and no reason to pay.
    let other = Delivery { id: "message-1", body: b"9999" };
    assert_eq!(consume(&engine, &bank, other).await?, Verdict::Park);

    assert_eq!(bank.calls.load(Ordering::Relaxed), 2);
    let payouts = bank.payouts.lock().map_err(|_| "the bank is closed")?;
    assert_eq!(*payouts, BTreeMap::from([("message-1".to_owned(), "1000".to_owned())]));
    Ok(())
}

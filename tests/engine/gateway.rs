//! A provider whose calls are counted, and a run that charges by it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use idem::{Answer, Effect, Error, ErrorKind, Fault, Operation, ProviderKey, RunError};

use crate::rig::{Ran, Rig, answer, resumable};

/// How long the provider of a keyed effect is said to remember.
pub(crate) const WINDOW: Duration = Duration::from_hours(24);
pub(crate) const KEYED: Effect = Effect::keyed(WINDOW);
pub(crate) const ONCE: Effect = Effect::at_most_once();

/// What the outside world does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Charges,
    /// It charges, and the answer is lost.
    Hides,
    /// Nothing was sent.
    Refuses,
}

/// A provider without a memory of keys: every call that reaches it counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gateway(Arc<Mutex<Vec<String>>>);

impl Gateway {
    pub(crate) fn call(&self, key: &ProviderKey, does: Does) -> Result<String, Fault> {
        let lost = || std::io::Error::other("the connection broke");
        if does == Does::Refuses {
            return Err(Fault::not_done(lost()));
        }
        let mut calls = self.0.lock().expect("no panic inside");
        calls.push(key.hex());
        if does == Does::Hides { Err(lost().into()) } else { Ok(format!("charge {}", calls.len())) }
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.0.lock().expect("no panic inside").clone()
    }
}

/// A run that charges once and answers with the charge.
pub(crate) async fn charge(rig: &Rig, gateway: &Gateway, effect: Effect, does: Does) -> Ran {
    let gateway = gateway.clone();
    rig.run(resumable(), async move |mut op: Operation| {
        let charge: String = op.effect("charge", effect, async |key| gateway.call(&key, does)).await?;
        Ok(op.complete(answer(201, "").header("charge", charge)).await?)
    })
    .await
}

/// What the work was told, if it returned that.
pub(crate) fn work_error(ran: &Ran) -> Option<ErrorKind> {
    match ran {
        Err(RunError::Work(error)) => error.downcast_ref::<Error>().map(Error::kind),
        Ok(_) | Err(RunError::Engine(_) | RunError::Panicked) => None,
    }
}

/// Whether the answer, own or replayed, is of this charge.
pub(crate) fn charged(ran: &Ran, charge: &str) -> bool {
    matches!(ran, Ok(Answer::Executed(answer) | Answer::Replayed(answer))
        if answer.headers().iter().any(|(name, value)| name == "charge" && value == charge))
}

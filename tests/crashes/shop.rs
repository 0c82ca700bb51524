//! The work that is killed: a step, a charge, and the transaction that ends it all.

use std::{net::SocketAddr, str::FromStr, time::Duration};

use idem::{
    Answer, BoxError, Effect, Engine, Fingerprint, Fingerprints, KeyId, Message, Operation, Policy,
    PostgresStore, RunError, Scope, StoredResponse,
};

use crate::provider;

pub(crate) const LEASE: Duration = Duration::from_mins(1);

/// What may be done about the charge when nobody knows whether it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Natural,
    Keyed,
    AtMostOnce,
}

impl Kind {
    fn effect(self) -> Effect {
        match self {
            Self::Natural => Effect::natural(),
            Self::Keyed => Effect::keyed(Duration::from_hours(24)),
            Self::AtMostOnce => Effect::at_most_once(),
        }
    }
}

impl FromStr for Kind {
    type Err = BoxError;

    fn from_str(name: &str) -> Result<Self, BoxError> {
        [Self::Natural, Self::Keyed, Self::AtMostOnce]
            .into_iter()
            .find(|kind| format!("{kind:?}") == name)
            .ok_or_else(|| format!("no kind: {name}").into())
    }
}

/// One run of the one operation.
pub(crate) async fn run(
    store: &PostgresStore,
    provider: SocketAddr,
    kind: Kind,
) -> Result<Answer, RunError<BoxError>> {
    let engine = Engine::new(store.clone());
    let store = store.clone();
    let work = async move |mut op: Operation| {
        let draft: i64 = store
            .step(&mut op, "drafted", async |tx| {
                let insert = sqlx::query_scalar("INSERT INTO draft DEFAULT VALUES RETURNING id");
                Ok(insert.fetch_one(&mut **tx).await?)
            })
            .await?;
        let charge: u64 = op
            .effect("charge", kind.effect(), async |key| Ok(provider::charge(provider, &key.hex()).await?))
            .await?;
        let mut phase = store.begin(op).await?;
        sqlx::query("INSERT INTO orders (draft) VALUES ($1)").bind(draft).execute(&mut *phase).await?;
        phase.emit(Message::json("charged", &charge)?).await?;
        Ok::<_, BoxError>(phase.complete(StoredResponse::json(201, &charge)?).await?)
    };
    engine.run(key(), print(), &Policy::resumable().lease(LEASE), work).await
}

fn key() -> KeyId {
    KeyId::new(Scope::new("tenant-1").unwrap(), "order-1".parse().unwrap())
}

fn print() -> Fingerprints {
    let mut bytes = [1; 33];
    bytes[0] = 1;
    Fingerprints::new(Fingerprint::from_bytes(bytes))
}

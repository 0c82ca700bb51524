//! One program, several stores: which one is used is said at run time, by a URL.
//!
//! ```text
//! cargo run --example choose_store
//! cargo run --example choose_store postgres://user:password@localhost/shop
//! ```

use std::{env, sync::Arc};

use idem::{
    Answer, BoxError, Engine, Fingerprint, KeyId, KeyStore, Maintain, MemoryStore, Operation, Policy,
    PostgresStore, Scope, StoredResponse, Sweeper,
};
use sqlx::PgPool;

/// Engines and sweepers do not care which store they have: they hold a trait object.
async fn open(url: &str) -> Result<Arc<dyn Maintain>, BoxError> {
    match url.split_once("://") {
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::new())),
        Some(("postgres" | "postgresql", _)) => {
            let store = PostgresStore::new(PgPool::connect(url).await?);
            store.migrate().await?;
            store.check().await?; // refuses a server that could not keep what it has confirmed
            Ok(Arc::new(store))
        }
        _ => Err("a store is memory:// or postgres://user:password@host/database".into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let store = open(&url).await?;
    let engine = Engine::new(Arc::clone(&store) as Arc<dyn KeyStore>); // all that runs needs
    let sweeper = Sweeper::new(store); // one that runs beside the server; `run()` never ends

    let id = KeyId::new(Scope::new("tenant 7")?, uuid::Uuid::new_v4().to_string().parse()?);
    let same = Fingerprint::of("charge").json_body(br#"{"amount":1000}"#).finish();
    let work = async |op: Operation| op.complete(StoredResponse::new(201, "charged")?).await;

    let first = engine.run(id.clone(), same.clone(), &Policy::resumable(), work).await?;
    sweeper.pass().await?; // takes only what has outlived its retention
    let again = engine.run(id, same, &Policy::resumable(), work).await?;

    let (Answer::Executed(first), Answer::Replayed(again)) = (first, again) else { panic!("it ran twice") };
    assert_eq!(first, again);
    assert!(open("redis://localhost").await.is_err(), "not a store of record");
    Ok(())
}

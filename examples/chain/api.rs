//! The API: a step, a charge, and the transaction that ends it all.

use std::{net::SocketAddr, time::Duration};

use axum::{Json, Router, extract::State, routing::post};
use idem::{
    BoxError, Effect, Engine, IdempotencyLayer, Idempotent, Message, Policy, PostgresStore, Problem, Reply,
    Scope, StoredResponse,
};
use tokio::net::TcpListener;

use super::{
    broker::CHARGED,
    gateway::{Charge, Gateway, Order},
};

/// So that what a killed process had in hand is taken over soon.
const LEASE: Duration = Duration::from_millis(1500);

#[derive(Clone)]
struct Shop {
    store: PostgresStore,
    gateway: Gateway,
}

/// Serves until it is killed.
///
/// # Errors
/// If the database is not there or the port is taken.
pub(crate) async fn serve(
    database: &str,
    gateway: SocketAddr,
    listen: SocketAddr,
    ready: fn(SocketAddr),
) -> Result<(), BoxError> {
    let store = PostgresStore::connect(database).await?;
    let policy = Policy::resumable().lease(LEASE);
    let idem =
        IdempotencyLayer::new(Engine::new(store.clone()), policy, |_| Scope::new("the only shop").ok());
    let routes = Router::new()
        .route("/charges", post(charge).layer(idem.required()))
        .with_state(Shop { store, gateway: Gateway { address: gateway } });
    let listener = TcpListener::bind(listen).await?;
    ready(listener.local_addr()?);
    Ok(axum::serve(listener, routes).await?)
}

/// Wherever it is killed, the next request with the key goes on behind what is committed.
async fn charge(
    State(shop): State<Shop>,
    Idempotent(mut op): Idempotent,
    Json(order): Json<Order>,
) -> Result<Reply, Problem> {
    let draft: i64 = shop
        .store
        .step(&mut op, "drafted", async |tx| {
            let insert = sqlx::query_scalar("INSERT INTO draft (reference) VALUES ($1) RETURNING id");
            Ok(insert.bind(&order.reference).fetch_one(&mut **tx).await?)
        })
        .await?;

    let charge: Charge = op
        .effect("charge", Effect::keyed(Duration::from_hours(24)), async |key| {
            Ok(shop.gateway.charge(&order, Some(&key.hex())).await?)
        })
        .await?;

    let mut phase = shop.store.begin(op).await?;
    sqlx::query("INSERT INTO orders (draft, reference, charge) VALUES ($1, $2, $3)")
        .bind(draft)
        .bind(&order.reference)
        .bind(&charge.id)
        .execute(&mut *phase)
        .await?;
    phase.emit(Message::json(CHARGED, &order)?).await?;
    Ok(phase.complete(StoredResponse::json(201, &charge)?).await?.into())
}

//! The engine: one run, whatever happens around it.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "tests own their tasks and end on the first surprise"
)]

mod broken_off;
mod completing;
mod doubts;
mod draining;
mod effects;
mod ends;
mod gateway;
mod heartbeat;
mod interrupted;
mod late;
mod naming;
mod opaque;
mod reconciling;
mod rig;
mod shop;
mod sweeping;
mod telemetry;
mod transactions;
mod unknown;
mod waiting;

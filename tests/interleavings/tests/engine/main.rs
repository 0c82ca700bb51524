//! The engine's hand-offs: between callers, a run's task, its heartbeat, those who wait, and a drain.

mod draining;
mod dropping;
mod heartbeat;
mod rig;
mod slowness;
mod waiting;

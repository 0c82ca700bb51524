//! The parts of `std` and `tokio` that idem uses, with a scheduling point before every step.
//!
//! Locks and atomics are shuttle's. Channels, semaphores and async locks are tokio's own, driven by shuttle's tasks: a
//! step of theirs is one step here. Time passes when a test lets it pass ([`time::pass_until`]), at any point of a schedule.
//!
//! `shuttle-tokio` is not used: under its `time` a sleep ends at once and a time-out only by hand, so that a heartbeat
//! never rests, and its clock is the machine's, so that a schedule would not replay; and it builds 118 packages.

pub mod std;
pub mod sync;
pub mod task;
pub mod time;

pub use task::spawn;
pub use tokio::select;

use ::std::{cell::Cell, time::Duration};

thread_local! {
    static FAULT: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Switches a fault on, or all off, for the schedules that this thread explores from here on.
pub fn switch_on(fault: Option<&'static str>) {
    FAULT.set(fault);
}

/// Another task may run here.
pub fn point() {
    // Not `yield_now`: that also asks the scheduler to prefer others. Shuttle's sleep is a scheduling point, no more.
    shuttle::thread::sleep(Duration::ZERO);
}

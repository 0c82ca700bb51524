//! The sweeper's pace.

use std::time::Duration;

use idem::{Sweeper, conformance::Call};

use crate::rig::Rig;

#[tokio::test(start_paused = true)]
async fn b012_a_zero_is_no_sweeping_without_a_pause() {
    let rig = Rig::new();
    let sweeper = tokio::spawn(Sweeper::new(rig.faulty.clone()).every(Duration::ZERO).batch(0).run());
    rig.elapse(Duration::from_millis(3500)).await;
    assert_eq!(rig.faulty.seen(Call::Sweep), 4, "at once, then once a second");
    sweeper.abort();
}

//! Tasks so slow that any time-out may strike at any step: settling, renewing, waiting, a whole lease.

use std::time::Duration;

use idem_core::{Answer, Engine, Error, Operation, Policy, RunError, State};
use idem_interleavings::check;
use scheduled::{task::JoinHandle, time::sleep};
use shuttle::{
    future::block_on,
    rand::{Rng as _, thread_rng},
};

use crate::rig::{LEASE, LONG, Ran, Rig, answer};

fn hasty() -> Policy {
    Policy::resumable()
        .lease(LEASE)
        .settle_within(Duration::from_secs(1))
        .max_execution(LEASE * 2)
        .wait(LEASE + Duration::from_secs(3))
}

fn call(rig: &Rig, engine: &Engine, body: &'static str) -> JoinHandle<Ran> {
    // About as long as a lease, where it is close who may end the operation.
    let busy = LEASE - Duration::from_secs(1) + Duration::from_millis(thread_rng().gen_range(0..2000));
    rig.call(engine, "a", hasty(), async move |op: Operation| {
        sleep(busy).await;
        op.complete(answer(201, body)).await
    })
}

#[test]
fn s14_whatever_comes_late_every_success_is_what_the_record_holds() {
    check(
        || {
            block_on(async {
                let rig = Rig::new();
                Rig::let_pass(LONG);
                // The first cannot renew: it may be taken over while it is busy.
                let (here, elsewhere) = (Engine::new(rig.wire.clone().without_renewals()), rig.engine());
                let calls = [call(&rig, &here, "paid by one"), call(&rig, &elsewhere, "paid by two")];
                let mut successes = Vec::new();
                for ran in calls {
                    match ran.await.expect("no panic") {
                        Ok(Answer::Executed(sent) | Answer::Replayed(sent)) => successes.push(sent),
                        // Told to try again, or that nobody knows: both are honest.
                        Ok(Answer::InProgress { .. })
                        | Err(RunError::<Error>::Engine(_) | RunError::Work(_)) => {}
                        other => panic!("{other:?}"),
                    }
                }
                let held = match rig.record("a").await.map(|record| record.state) {
                    Some(State::Completed { response, .. }) => Some(response),
                    _ => None,
                };
                assert!(successes.iter().all(|sent| Some(sent) == held.as_ref()), "{successes:?}, {held:?}");
            });
        },
        &["a loser believes itself"],
    );
}

//! A lone retry after the lease: it must end.
//!
//! From every state that is reached, the others stop, the lease runs out, and one more request of the same client runs
//! alone and undisturbed. This asks less of the checker than "eventually" along endless paths, and more of the machine:
//! no state may need somebody else's help. Only the row decides where it ends, so that each row is tried once.

use std::{cell::RefCell, sync::Arc};

use ahash::HashMap;

use crate::{
    machine::Row,
    model::Model,
    world::{At, Attempt, Said, World},
};

/// More steps than any run without a fault takes.
const STEPS: usize = 40;

/// A configuration, a row and a time.
type Tried = (usize, Row, u8);

/// Whether a lone retry ends with an answer, or is told that a person decides.
pub(crate) fn ends(model: &Model, world: &World) -> bool {
    thread_local!(static TRIED: RefCell<HashMap<Tried, bool>> = RefCell::default());
    let Some(row) = world.row else { return true };
    let tried = (model.number, row, world.clock);
    if let Some(ended) = TRIED.with_borrow(|all| all.get(&tried).copied()) {
        return ended;
    }
    let ended = run(model, row, world.clock + model.bounds.lease);
    TRIED.with_borrow_mut(|all| all.insert(tried, ended));
    ended
}

fn run(model: &Model, row: Row, clock: u8) -> bool {
    let mut model = model.clone();
    model.bounds.lives = 2;
    // What an imagined retry comes to is not reached.
    model.reached = Arc::default();
    // The same request as the row's, by a process that knows both versions of the fingerprint.
    model.retry_of(row.fingerprint.body);
    // Whoever claimed it, it was none of the retry's.
    let row = Row { attempt: u8::MAX, ..row };
    let mut world = World { row: Some(row), clock, ..World::new(1) };
    world.known.lives = 1;
    *world.life() = crate::world::Life {
        operation: row.operation,
        token: row.token,
        owner: row.attempt,
        marked: [true; 2],
        ..Default::default()
    };
    world.attempts[0] = Attempt::new();
    for _ in 0..STEPS {
        match world.attempts[0].at {
            At::Answered(said) => {
                return matches!(said, Said::Success { .. } | Said::Replay { .. } | Said::InDoubt);
            }
            At::Dead => return false,
            _ => {}
        }
        if model.step(&mut world, 0).is_none() {
            return false;
        }
    }
    false
}

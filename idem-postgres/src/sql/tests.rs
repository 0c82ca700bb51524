//! What holds the statements to their word: what waits for whom, and that no condition in them is idle.

mod damaged;
mod drops;
mod fences;
mod impossible;
mod locks;
mod overtaken;
mod plans;
#[expect(dead_code, reason = "the other tests use the rest of it")]
#[path = "../../tests/store/rig.rs"]
mod rig;
mod split;
mod sweeps;
mod table;
mod trial;

use damaged::open;

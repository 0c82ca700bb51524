//! What must hold in every state.
//!
//! Some promises are about a state, and are looked at there. Others are about a step; the step notes the broken promise
//! in the state that it leads to.

use stateright::Property;

use crate::{
    machine::{Mark, RowState},
    model::Model,
    solo,
    world::{At, EFFECTS, Said, World},
};

macro_rules! promises {
    ($($name:ident $id:literal $text:literal $also:expr;)*) => {
        /// A promise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Promise { $(#[doc = $text] $name,)* }

        /// Every promise with its name and wording.
        pub(crate) const ALL: &[(Promise, &str, &str)] = &[$((Promise::$name, $id, $text),)*];

        /// Each as a property that holds in every state, but the one named `without`.
        pub(crate) fn properties(without: Option<&str>) -> Vec<Property<Model>> {
            let mut properties = Vec::new();
            $(if without != Some($id) {
                properties.push(Property::always($id, |model: &Model, world: &World| {
                    let also: fn(&Model, &World) -> bool = $also;
                    !world.broken.has(Promise::$name) && also(model, world)
                }));
            })*
            properties
        }
    };
}

promises! {
    S1 "S1" "a fence has one owner, and tokens of one operation grow" |_, _| true;
    S1b "S1b" "no claim takes a lease that runs, nor what is in doubt" |_, _| true;
    S2 "S2" "a call out has a committed claim behind it, and a committed mark unless it is natural" |_, _| true;
    S3 "S3" "an effect that is not natural happens at most once in a window" single_effects;
    S3c "S3c" "a delivered success has called out for each of its effects" success_called;
    S5 "S5" "a committed answer stands unchanged until its retention is over, which never shrinks" answer_stands;
    S6 "S6" "all answers of one life are the committed one, byte for byte" answers_agree;
    S7 "S7" "no success is delivered before its commit" success_committed;
    S8 "S8" "a write without the current fence, or on an ended record, changes nothing" |_, _| true;
    S10 "S10" "another fingerprint never runs, replays or changes the record's; the same one is never a mismatch" |_, _| true;
    S13 "S13" "no claim wipes what has not ended and expired by the store's clock" |_, _| true;
    S14 "S14" "a call sent again gets the same answer; a failure is told only of what is not completed; nobody meets a fault of ours" honest;
    S16 "S16" "what is failed holds no result and had no effect; the store never has to refuse a release" failed_is_clean;
    S17 "S17" "a recorded result is never lost, changed or run again; in doubt means that something is open" results_stay;
    S19 "S19" "a sweep deletes only what has ended and expired" |_, _| true;
    OneOperation "one" "one request runs in one operation" |_, _| true;
    HandedOver "handed" "what is handed over is what the winning write left" |_, _| true;
    L1 "L1" "a lone retry after the lease ends with an answer, or in doubt; what is handed on is free at once" solo::ends;
}

/// What a promise says.
pub(crate) fn wording(id: &str) -> &'static str {
    ALL.iter().find(|&&(_, name, _)| name == id).map_or("", |&(_, _, text)| text)
}

/// Promises that a step broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Broken(u32);

impl Broken {
    pub(crate) fn note(&mut self, promise: Promise) {
        self.0 |= 1 << promise as u32;
    }

    /// Goes on as if nobody looked at the promise of this name.
    pub(crate) fn disregard(&mut self, id: &str) {
        for &(promise, name, _) in ALL {
            if name == id {
                self.0 &= !(1 << promise as u32);
            }
        }
    }

    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    pub(crate) fn has(self, promise: Promise) -> bool {
        self.0 & (1 << promise as u32) != 0
    }
}

/// The successes that clients were told: the life and the answer.
fn delivered(world: &World) -> impl Iterator<Item = (u8, u8)> + '_ {
    world.attempts.iter().filter_map(|attempt| match attempt.at {
        At::Answered(Said::Success { life, response } | Said::Replay { life, response }) => {
            Some((life, response))
        }
        _ => None,
    })
}

fn single_effects(model: &Model, world: &World) -> bool {
    world.known.windows.iter().all(|window| {
        (0..model.effects.len())
            .all(|effect| model.effects[effect].is_natural() || window.effects[effect] <= 1)
    })
}

fn success_called(model: &Model, world: &World) -> bool {
    delivered(world).all(|(life, _)| {
        life != 0 && {
            let window = world.known.of[usize::from(life) - 1].window;
            (0..model.effects.len()).all(|effect| world.known.windows[usize::from(window)].called[effect])
        }
    })
}

fn answer_stands(_: &Model, world: &World) -> bool {
    let lives = usize::from(world.known.lives);
    (0..lives).all(|number| {
        let life = world.known.of[number];
        world.clock >= life.until
            || number + 1 == lives
                && world.row.is_some_and(|row| {
                    row.state == RowState::Completed(life.response) && row.expires >= life.until
                })
    })
}

fn answers_agree(_: &Model, world: &World) -> bool {
    delivered(world).all(|(life, response)| {
        let committed = world.known.of.get(usize::from(life).wrapping_sub(1)).map_or(0, |life| life.response);
        committed == 0 || committed == response
    })
}

fn success_committed(_: &Model, world: &World) -> bool {
    delivered(world).all(|(life, _)| life != 0 && world.known.of[usize::from(life) - 1].response != 0)
}

fn honest(_: &Model, world: &World) -> bool {
    world.attempts.iter().zip(1_u8..).all(|(attempt, id)| match attempt.at {
        At::Answered(Said::Fault) => false,
        At::Answered(Said::Failed) => world.known.of.iter().all(|life| life.response != id),
        _ => true,
    })
}

fn failed_is_clean(model: &Model, world: &World) -> bool {
    let Some(row) = world.row.filter(|row| row.state == RowState::Failed) else { return true };
    let window = world.known.of[usize::from(world.known.lives) - 1].window;
    let happened = world.known.windows[usize::from(window)].effects;
    let effect = |effect: usize| !model.effects[effect].is_natural() && happened[effect] > 0;
    !row.journal().holds_result() && !(0..model.effects.len()).any(effect)
}

fn results_stay(_: &Model, world: &World) -> bool {
    let Some(row) = world.row else { return true };
    let results = world.known.of[usize::from(world.known.lives) - 1].results;
    let journal = row.journal();
    let kept = |effect: usize| results[effect] == 0 || journal.0[effect] == Mark::Result(results[effect]);
    let all_kept = matches!(row.state, RowState::Completed(_)) || (0..EFFECTS).all(kept);
    all_kept && (!row.is_doubtful(world.clock) || world.is_open())
}

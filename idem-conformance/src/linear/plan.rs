//! What a few callers do at the same time to one key.

use std::{sync::Arc, time::Duration};

use idem_core::{Claim, Decision, KeyId, Record, Rerun, StoredResponse};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy},
    prop_oneof,
    sample::select,
};

use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, asked, body, point, request_of, request_storing},
    step::Step,
};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) opening: Opening,
    /// What each caller does, one thing after the other.
    pub(super) callers: Vec<Vec<Move>>,
}

/// How the key stands when they begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opening {
    Free,
    Claimed,
    Stale,
    Marked,
    InDoubt,
    Released,
    Completed,
    Expired,
}

/// One call, what goes wrong with it, and how long it is under way there and back.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) act: Act,
    pub(super) fault: Fault,
    pub(super) there: usize,
    pub(super) back: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Claim {
        body: &'static str,
    },
    Renew(Whose, Duration),
    Checkpoint(Whose, u64, Rerun),
    Complete(Whose, Duration),
    Release(Whose),
    Resolve(Verdict),
    Find,
    Sweep,
    /// The call before once more, as after a lost answer.
    SameAgain,
}

/// Whose fence a call shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    Mine,
    /// That of whoever was told last that the key is his.
    Latest,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Complete,
    Fail,
    Resume,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    None,
    LoseReply,
    LoseRequest,
    /// Its caller is told `Unknown` at once, and it happens some time later.
    Delay,
}

/// What callers have been told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) claim: Option<Arc<Claim>>,
    pub(super) found: Option<Record>,
}

/// Two to four callers, 24 calls at most.
pub(super) fn plan() -> impl Strategy<Value = Plan> {
    let opening = select(&[
        Opening::Free,
        Opening::Claimed,
        Opening::Stale,
        Opening::Stale,
        Opening::Marked,
        Opening::InDoubt,
        Opening::InDoubt,
        Opening::Released,
        Opening::Completed,
        Opening::Expired,
    ]);
    (opening, vec(vec(one_move(), 2..=6), 2..=4)).prop_map(|(opening, callers)| Plan { opening, callers })
}

fn one_move() -> impl Strategy<Value = Move> {
    let fault = prop_oneof![
        20 => Just(Fault::None),
        1 => Just(Fault::LoseReply),
        1 => Just(Fault::LoseRequest),
        1 => Just(Fault::Delay),
    ];
    (act(), fault, 0..4_usize, 0..4_usize).prop_map(|(act, fault, there, back)| Move {
        act,
        fault,
        there,
        back,
    })
}

fn act() -> impl Strategy<Value = Act> {
    let whose = || prop_oneof![3 => Just(Whose::Mine), 1 => Just(Whose::Latest)];
    let rerun =
        select(&[Rerun::Always, Rerun::Never, Rerun::Until(Duration::ZERO), Rerun::Again, Rerun::Keep]);
    prop_oneof![
        8 => prop_oneof![9 => Just("pay 10"), 1 => Just("pay 99")].prop_map(|body| Act::Claim { body }),
        4 => (whose(), select(&[Duration::ZERO, LEASE]))
            .prop_map(|(whose, lease)| Act::Renew(whose, lease)),
        5 => (whose(), 1..6_u64, rerun).prop_map(|(whose, number, rerun)| Act::Checkpoint(whose, number, rerun)),
        3 => (whose(), select(&[RETENTION, Duration::ZERO]))
            .prop_map(|(whose, retention)| Act::Complete(whose, retention)),
        3 => whose().prop_map(Act::Release),
        4 => select(&[Verdict::Complete, Verdict::Fail, Verdict::Resume]).prop_map(Act::Resolve),
        3 => Just(Act::Find),
        2 => Just(Act::Sweep),
        4 => Just(Act::SameAgain),
    ]
}

impl Opening {
    /// Brings the key there; the claim of its first owner, if it had one.
    pub(super) async fn arrange(self, bench: &Bench, id: &KeyId) -> Option<Arc<Claim>> {
        if matches!(self, Self::Free) {
            return None;
        }
        let owner = bench.take_by(&request_storing(id, body("pay 10"), asked("charges", b"before"))).await;
        if matches!(self, Self::Marked | Self::InDoubt) {
            bench.checkpoint(&owner, &point(1, "charging"), Rerun::Never).await.expect("checkpoint");
        }
        match self {
            Self::Stale | Self::InDoubt => bench.hand_on(&owner).await,
            Self::Released => bench.release(&owner).await.expect("release"),
            Self::Completed | Self::Expired => {
                bench.complete(&owner, &answer("before")).await.expect("complete");
            }
            Self::Free | Self::Claimed | Self::Marked => {}
        }
        if matches!(self, Self::Expired) {
            bench.elapse(RETENTION + LEASE + MARGIN).await;
        }
        Some(owner)
    }
}

impl Act {
    /// The call that it is for a caller who was told `mine`, made `last` before and calls what it writes `mark`.
    pub(super) fn step(
        &self,
        id: &KeyId,
        mine: &Told,
        everybody: &Told,
        last: Option<&Step>,
        mark: &str,
    ) -> Step {
        let claim = |whose: Whose| match whose {
            Whose::Mine => mine.claim.clone().or_else(|| everybody.claim.clone()),
            Whose::Latest => everybody.claim.clone(),
        };
        let step = match self {
            Self::Claim { body: text } => {
                Some(Step::Claim(request_storing(id, body(text), asked("charges", mark.as_bytes()))))
            }
            Self::Renew(whose, lease) => claim(*whose).map(|claim| Step::Renew(claim, *lease)),
            Self::Checkpoint(whose, number, rerun) => {
                claim(*whose).map(|claim| Step::Checkpoint(claim, point(*number, mark), *rerun))
            }
            Self::Complete(whose, retention) => {
                claim(*whose).map(|claim| Step::Complete(claim, answer(mark), *retention))
            }
            Self::Release(whose) => claim(*whose).map(|claim| Step::Release(claim, RETENTION)),
            Self::Resolve(verdict) => everybody.found.clone().map(|seen| {
                let decision = verdict.about(&seen, answer(mark), mark);
                Step::Resolve(Box::new(seen), decision, RETENTION)
            }),
            Self::Find => Some(Step::Find(id.clone())),
            Self::Sweep => Some(Step::Sweep(id.clone())),
            Self::SameAgain => last.cloned(),
        };
        // Whoever has no claim to show asks for one, and whoever has seen no record looks for one.
        step.unwrap_or_else(|| match self {
            Self::Resolve(_) | Self::SameAgain | Self::Find => Step::Find(id.clone()),
            Self::Claim { .. }
            | Self::Renew(..)
            | Self::Checkpoint(..)
            | Self::Complete(..)
            | Self::Release(_)
            | Self::Sweep => Step::Claim(request_of(id, body("pay 10"))),
        })
    }
}

impl Verdict {
    fn about(self, seen: &Record, answer: StoredResponse, mark: &str) -> Decision {
        match self {
            Self::Complete => Decision::Complete(answer),
            Self::Fail => Decision::Fail,
            Self::Resume => Decision::Resume(point(seen.checkpoint + 1, mark)),
        }
    }
}

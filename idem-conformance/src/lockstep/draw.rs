//! Draws the next call: mostly one that means something, often one that comes too late, sometimes one that is absurd.
//!
//! The walk that is drawn goes ahead of the store's: on the state functions alone, at a time of its own. It only says
//! what would be worth a call; what the store is compared with starts from the store's own records.

use std::time::{Duration, SystemTime};

use idem_core::{MAX_SPAN, MIN_LEASE, Rerun, State};
use proptest::{
    prelude::{BoxedStrategy, Just, Strategy},
    prop_oneof,
    sample::select,
    strategy::Union,
};
use proptest_state_machine::ReferenceStateMachine;

use super::{
    act::{Act, Altered, Asks, Caller, KEYS, Name, Number, Owner, SCOPES, Said, Sight, Turn, Verdict, Whose},
    world::{Doing, World},
};
use crate::step::Drawn;

// The first of each is what a walk that failed is made simpler with.
const LEASES: [Duration; 4] =
    [Duration::from_secs(90), Duration::from_secs(30), Duration::from_mins(10), MIN_LEASE];
const RENEWALS: [Duration; 7] = [
    Duration::from_secs(90),
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_secs(20),
    Duration::from_mins(10),
    MIN_LEASE,
    Duration::from_nanos(1),
];
const RETENTIONS: [Duration; 4] =
    [Duration::from_hours(24), Duration::ZERO, Duration::from_mins(1), Duration::from_hours(1)];
const WINDOWS: [Duration; 4] =
    [Duration::from_hours(24), Duration::ZERO, Duration::from_mins(1), Duration::from_mins(20)];
const PAUSES: [Duration; 6] = [
    Duration::from_secs(101),
    Duration::from_secs(7),
    Duration::from_secs(41),
    Duration::from_secs(661),
    Duration::from_secs(7201),
    Duration::from_secs(90_001),
];
const TOO_LONG: Duration = MAX_SPAN.saturating_add(Duration::from_secs(1));
const LIMITS: [u32; 4] = [100, 0, 1, 2];

/// The walk ahead of the store's.
#[derive(Debug)]
pub(super) struct Ahead;

#[derive(Clone, Debug)]
pub(super) struct Place {
    world: World,
    now: SystemTime,
}

impl ReferenceStateMachine for Ahead {
    type State = Place;
    type Transition = Turn;

    fn init_state() -> BoxedStrategy<Place> {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        Just(Place { world: World::default(), now: start }).boxed()
    }

    fn transitions(place: &Place) -> BoxedStrategy<Turn> {
        let second = prop_oneof![Just(false), Just(true)];
        (act(place), second).prop_map(|(act, second)| Turn { act, second }).boxed()
    }

    fn apply(mut place: Place, turn: &Turn) -> Place {
        if let Some(by) = place.world.too_close(place.now, Duration::ZERO) {
            place.now += by;
        }
        match place.world.doing(&turn.act, place.now) {
            Doing::Step(step) => {
                let (record, _) =
                    step.decide(place.world.record(step.id()).cloned(), place.now, &Drawn::afresh());
                place.world.put(step.id(), record);
            }
            Doing::Sweep(_) => {
                let now = place.now;
                place.world.records.retain(|_, record| !record.is_expired(now));
            }
            Doing::Elapse(by) => place.now += by,
            Doing::Stuck(_) | Doing::Nothing => {}
        }
        place
    }
}

fn act(place: &Place) -> BoxedStrategy<Act> {
    let known = near(place.world.names(|_| true));
    let open = place.world.names(|record| record.state == State::InProgress);
    let owned = if open.is_empty() { 1 } else { 4 };
    let open = near(open);
    let doubt = place.world.in_doubt(place.now).next().is_some();
    Union::new_weighted(vec![
        (2, known.clone().prop_map(Act::Find).boxed()),
        (26, claim(&known).boxed()),
        (6, (known.clone(), 0..4_usize).prop_map(|(id, back)| Act::ClaimAgain { id, back }).boxed()),
        (3 * owned, renew(&open).boxed()),
        (5 * owned, checkpoint(&open).boxed()),
        (2 * owned, complete(&open).boxed()),
        (2 * owned, release(&open).boxed()),
        (if doubt { 16 } else { 2 }, resolve(&known, doubt).boxed()),
        (4, select(&LIMITS).prop_map(Act::Sweep).boxed()),
        (2, select(&LIMITS).prop_map(Act::Stuck).boxed()),
        (9, select(&PAUSES).prop_map(Act::Elapse).boxed()),
        (10, Just(Act::SameAgain).boxed()),
    ])
    .boxed()
}

/// Mostly one of these names.
fn near(names: Vec<Name>) -> BoxedStrategy<Name> {
    if names.is_empty() {
        return name().boxed();
    }
    prop_oneof![4 => select(names), 1 => name()].boxed()
}

/// Mostly the same name, so that a short walk comes far with it.
fn name() -> impl Strategy<Value = Name> {
    let scope = prop_oneof![6 => Just(SCOPES[0]), 1 => select(&SCOPES)];
    let key = prop_oneof![4 => Just(KEYS[0]), 3 => select(&KEYS)];
    (scope, key).prop_map(|(scope, key)| Name { scope, key })
}

fn claim(known: &BoxedStrategy<Name>) -> impl Strategy<Value = Act> + use<> {
    let id = prop_oneof![2 => known.clone(), 1 => name()];
    let caller = prop_oneof![12 => Just(Caller::New), 1 => Just(Caller::Last)];
    let asks = prop_oneof![
        12 => Just(Asks::Pay10),
        2 => Just(Asks::Pay99),
        4 => Just(Asks::NewerPay10),
        1 => Just(Asks::NewerPay99),
        1 => Just(Asks::OnlyNewerPay10),
    ];
    let lease = prop_oneof![96 => select(&LEASES), 1 => Just(TOO_LONG), 1 => Just(Duration::ZERO)];
    (id, caller, asks, lease, retention()).prop_map(|(id, caller, asks, lease, retention)| Act::Claim {
        id,
        caller,
        asks,
        lease,
        retention,
    })
}

fn renew(open: &BoxedStrategy<Name>) -> impl Strategy<Value = Act> + use<> {
    let lease = prop_oneof![48 => select(&RENEWALS), 1 => Just(TOO_LONG)];
    (owner(open), lease).prop_map(|(owner, lease)| Act::Renew { owner, lease })
}

fn checkpoint(open: &BoxedStrategy<Name>) -> impl Strategy<Value = Act> + use<> {
    let number = prop_oneof![
        6 => Just(Number::Next),
        1 => Just(Number::LastAgain),
        1 => Just(Number::Used),
        1 => Just(Number::Below),
        1 => Just(Number::Skipping),
    ];
    let rerun = prop_oneof![
        25 => Just(Rerun::Always),
        25 => select(&WINDOWS).prop_map(Rerun::Until),
        15 => Just(Rerun::Never),
        15 => Just(Rerun::Again),
        18 => Just(Rerun::Keep),
        2 => Just(Rerun::Until(TOO_LONG)),
    ];
    (owner(open), number, point(), rerun).prop_map(|(owner, number, point, rerun)| Act::Checkpoint {
        owner,
        number,
        point,
        rerun,
    })
}

fn complete(open: &BoxedStrategy<Name>) -> impl Strategy<Value = Act> + use<> {
    (owner(open), said(), retention()).prop_map(|(owner, answer, retention)| Act::Complete {
        owner,
        answer,
        retention,
    })
}

fn release(open: &BoxedStrategy<Name>) -> impl Strategy<Value = Act> + use<> {
    (owner(open), retention()).prop_map(|(owner, retention)| Act::Release { owner, retention })
}

fn resolve(known: &BoxedStrategy<Name>, doubt: bool) -> impl Strategy<Value = Act> + use<> {
    let seen = prop_oneof![
        if doubt { 12 } else { 0 } => (0..3_usize).prop_map(Sight::InDoubt),
        2 => Just(Sight::Decided),
        1 => known.clone().prop_map(Sight::Now),
        1 => (known.clone(), 0..6_usize).prop_map(|(id, back)| Sight::Earlier(id, back)),
    ];
    let altered = prop_oneof![
        13 => Just(Altered::Not),
        1 => Just(Altered::VersionAbove),
        1 => Just(Altered::VersionBelow),
        1 => Just(Altered::OtherOperation),
    ];
    let decision = prop_oneof![
        3 => said().prop_map(Verdict::Complete),
        3 => Just(Verdict::Fail),
        3 => point().prop_map(|point| Verdict::Resume { point, skip: 0 }),
        1 => point().prop_map(|point| Verdict::Resume { point, skip: 1 }),
    ];
    (seen, altered, decision, retention()).prop_map(|(seen, altered, decision, retention)| Act::Resolve {
        seen,
        altered,
        decision,
        retention,
    })
}

/// Mostly the current owner of what is in progress.
fn owner(open: &BoxedStrategy<Name>) -> impl Strategy<Value = Owner> + use<> {
    let fence = prop_oneof![
        15 => Just(Whose::Current),
        2 => (0..3_usize).prop_map(Whose::Former),
        1 => Just(Whose::NextToken),
        1 => Just(Whose::OtherOperation),
        1 => name().prop_map(Whose::OfAnotherKey),
        1 => Just(Whose::Nobody),
    ];
    (open.clone(), fence).prop_map(|(id, fence)| Owner { id, fence })
}

fn point() -> impl Strategy<Value = &'static str> {
    select(&["charging", "charged", "caf\u{e9}"])
}

fn said() -> impl Strategy<Value = Said> {
    (select(&[201, 200, 204, 500]), prop_oneof![Just(false), Just(true)])
        .prop_map(|(status, headers)| Said { status, headers })
}

fn retention() -> impl Strategy<Value = Duration> {
    prop_oneof![97 => select(&RETENTIONS), 3 => Just(TOO_LONG)]
}

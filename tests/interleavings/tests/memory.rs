//! The memory store: a call is one atomic step, and the count of records is right.

use std::{sync::Arc, time::Duration};

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Fingerprint, Key, KeyId, KeyStore, Maintain, Scope, State, StoreError,
    StoreErrorKind, StoredResponse,
};
use idem_interleavings::check;
use idem_memory::{ManualClock, MemoryStore};
use shuttle::{
    future::block_on,
    thread::{self, JoinHandle},
};

const LEASE: Duration = Duration::from_secs(90);
const RETENTION: Duration = Duration::from_hours(24);

#[derive(Clone)]
struct World {
    clock: ManualClock,
    store: MemoryStore,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        Self { store: MemoryStore::with_clock(clock.clone()), clock }
    }

    fn max_records(mut self, records: usize) -> Self {
        self.store = self.store.max_records(records);
        self
    }

    /// Uses the store beside what others do with it.
    fn beside<T: Send + 'static>(&self, act: impl FnOnce(Self) -> T + Send + 'static) -> JoinHandle<T> {
        let world = self.clone();
        thread::spawn(move || act(world))
    }

    fn claim(&self, key: &str) -> Result<ClaimOutcome, StoreError> {
        let same = Fingerprint::of("test").body(b"{}").finish();
        let request = ClaimRequest::new(id(key), same, LEASE, RETENTION).expect("valid spans");
        block_on(self.store.claim(&request))
    }

    fn claimed(&self, key: &str) -> Claim {
        let outcome = self.claim(key);
        let Ok(ClaimOutcome::Claimed(claim)) = outcome else { panic!("the key is free: {outcome:?}") };
        claim
    }

    fn complete(&self, claim: &Claim, answer: &StoredResponse) -> Result<(), StoreError> {
        block_on(self.store.complete(claim, answer, RETENTION))
    }

    fn sweep(&self) -> u64 {
        block_on(self.store.sweep(10)).expect("memory answers")
    }

    fn state(&self, key: &str) -> Option<State> {
        block_on(self.store.find(&id(key))).expect("memory answers").map(|record| record.state)
    }
}

fn id(key: &str) -> KeyId {
    KeyId::new(Scope::new("tenant 7").expect("valid"), key.parse::<Key>().expect("valid"))
}

fn paid() -> StoredResponse {
    StoredResponse::new(201, "paid").expect("a final status")
}

fn is_full(outcome: &Result<ClaimOutcome, StoreError>) -> bool {
    matches!(outcome, Err(error) if error.kind() == StoreErrorKind::Unavailable)
}

#[test]
fn s01_one_of_two_claims_owns_the_key() {
    check(
        || {
            let world = World::new();
            let other = world.beside(|world| world.claim("a"));
            let outcomes = [world.claim("a"), other.join().expect("no panic")];
            let owners =
                outcomes.iter().filter(|outcome| matches!(outcome, Ok(ClaimOutcome::Claimed(_)))).count();
            let busy =
                outcomes.iter().filter(|outcome| matches!(outcome, Ok(ClaimOutcome::InProgress { .. })));
            assert_eq!((owners, busy.count()), (1, 1), "{outcomes:?}");
        },
        &["torn step"],
    );
}

#[test]
fn s05_a_completed_answer_stays_and_is_replayed() {
    check(
        || {
            let world = World::new();
            let claim = Arc::new(world.claimed("a"));
            let heartbeat = world.beside({
                let claim = Arc::clone(&claim);
                move |world| block_on(world.store.renew(&claim, LEASE))
            });
            let duplicate = world.beside(|world| world.claim("a"));
            world.complete(&claim, &paid()).expect("it owns the key");
            let replay = world.claim("a").expect("memory answers");
            assert!(matches!(&replay, ClaimOutcome::Completed(answer) if *answer == paid()), "{replay:?}");
            match duplicate.join().expect("no panic").expect("memory answers") {
                ClaimOutcome::InProgress { .. } => {}
                ClaimOutcome::Completed(answer) => assert_eq!(answer, paid()),
                other => panic!("a duplicate of a live claim: {other:?}"),
            }
            if let Err(refused) = heartbeat.join().expect("no panic") {
                assert_eq!(refused.kind(), StoreErrorKind::ClaimLost, "the operation had ended");
            }
            let replay = world.claim("a").expect("memory answers");
            assert!(matches!(&replay, ClaimOutcome::Completed(answer) if *answer == paid()), "{replay:?}");
        },
        &["torn step"],
    );
}

#[test]
fn s08_a_takeover_or_the_old_owner_completes_never_both() {
    check(
        || {
            let world = World::new();
            let old = world.claimed("a");
            world.clock.advance(LEASE);
            let takeover = world.beside(|world| match world.claim("a").expect("memory answers") {
                ClaimOutcome::Claimed(claim) => Some(claim),
                ClaimOutcome::Completed(answer) => {
                    assert_eq!(answer, paid());
                    None
                }
                other => panic!("a claim of a stale key: {other:?}"),
            });
            let completed = world.complete(&old, &paid());
            let taken = takeover.join().expect("no panic");
            let lost = matches!(&completed, Err(error) if error.kind() == StoreErrorKind::ClaimLost);
            match (&taken, lost) {
                (None, false) => assert_eq!(completed.ok(), Some(())),
                (Some(claim), true) => {
                    assert_eq!(claim.fence().token, old.fence().token + 1);
                    let answer = StoredResponse::new(200, "paid by the new owner").expect("a final status");
                    world.complete(claim, &answer).expect("the new owner holds the key");
                }
                both => panic!("taken over and completed: {both:?}, {completed:?}"),
            }
        },
        &["torn step"],
    );
}

#[test]
fn s19_a_sweep_never_takes_a_record_that_is_claimed_again() {
    check(
        || {
            let world = World::new().max_records(2);
            let ended = world.claimed("a");
            world.complete(&ended, &paid()).expect("it owns the key");
            world.clock.advance(RETENTION * 2);
            let sweeper = world.beside(|world| world.sweep());
            let again = world.claimed("a");
            let swept = sweeper.join().expect("no panic");
            assert_eq!(world.state("a"), Some(State::InProgress), "{swept} swept");
            world.complete(&again, &paid()).expect("the record is there");
            // The count is right: there is room for one more, and no more.
            assert!(world.claim("b").is_ok());
            assert!(is_full(&world.claim("c")));
        },
        &["list, then delete"],
    );
}

#[test]
fn s21_a_sweep_beside_new_keys_leaves_the_count_right() {
    check(
        || {
            let world = World::new().max_records(2);
            let ended = world.claimed("a");
            world.complete(&ended, &paid()).expect("it owns the key");
            world.clock.advance(RETENTION * 2);
            let claimer = world.beside(|world| world.claim("b"));
            assert_eq!(world.sweep(), 1);
            assert!(claimer.join().expect("no panic").is_ok(), "there was room for two");
            assert!(world.claim("c").is_ok());
            assert!(is_full(&world.claim("d")));
        },
        &["count written back"],
    );
}

#[test]
fn s21_two_new_keys_never_share_the_last_place() {
    check(
        || {
            let world = World::new().max_records(1);
            let other = world.beside(|world| world.claim("b"));
            let outcomes = [world.claim("a"), other.join().expect("no panic")];
            assert_eq!(outcomes.iter().filter(|outcome| is_full(outcome)).count(), 1, "{outcomes:?}");
            let records = ["a", "b"].into_iter().filter(|key| world.state(key).is_some()).count();
            assert_eq!(records, 1, "{outcomes:?}");
        },
        &["count, then add"],
    );
}

//! Histories that are written by hand, and some that are forced out of a wrong store.

mod gate;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use idem_core::{Claim, ClaimOutcome, KeyId, OperationId, Origin, Record, Rerun, StoreErrorKind};

use super::*;
use crate::{
    bench::{LEASE, RETENTION, answer, key, point, request},
    fault::same_claim,
    step::{Drawn, Reply, Step},
};

fn id() -> KeyId {
    key("s", "k")
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

fn window() -> Window {
    Window { before: now(), after: now() }
}

/// A record, and the calls that a store without a fault makes of it.
#[derive(Clone, Default)]
struct Key(Option<Record>);

impl Key {
    fn call(&mut self, step: &Step) -> Reply {
        let (record, reply) = step.decide(self.0.take(), now(), &Drawn::afresh());
        self.0 = record;
        reply
    }

    /// The claim of a new owner.
    fn claim(&mut self) -> Arc<Claim> {
        let reply = self.call(&Step::Claim(request(&id())));
        Arc::new(same_claim(reply.claim().expect("it can be claimed")))
    }

    fn look(&self) -> Reply {
        Reply::Found(Ok(self.0.clone().map(Box::new)))
    }

    /// Claimed, and given up without an end.
    fn stale() -> (Self, Arc<Claim>) {
        let mut key = Self::default();
        let owner = key.claim();
        key.call(&Step::Renew(Arc::clone(&owner), Duration::ZERO));
        (key, owner)
    }
}

/// A call between two moments, and its answer.
fn op((begun, returned): (u64, u64), step: Step, reply: Reply) -> Op {
    Op { caller: 0, step, begun, reply: Some((reply, returned)) }
}

/// A call of which nobody knows whether it was done.
fn unknown(begun: u64, step: Step) -> Op {
    Op { caller: 0, step, begun, reply: None }
}

fn find(at: (u64, u64), reply: Reply) -> Op {
    op(at, Step::Find(id()), reply)
}

fn complete(claim: &Arc<Claim>, text: &str) -> Step {
    Step::Complete(Arc::clone(claim), answer(text), RETENTION)
}

const OK: Reply = Reply::Write(Ok(()));

#[track_caller]
fn explained(before: &Key, ops: &[Op]) {
    if let Err(why) = explain(before.0.as_ref(), ops, window()) {
        panic!("{why}");
    }
}

#[track_caller]
fn not_explained(before: &Key, ops: &[Op]) -> String {
    let Err(why) = explain(before.0.as_ref(), ops, window()) else { panic!("explained: {ops:#?}") };
    assert!(why.contains("explains the most"), "{why}");
    why
}

#[test]
fn s01_of_two_first_claims_one_wins_and_either_may() {
    let free = Key::default();
    for winner_first in [true, false] {
        let mut key = free.clone();
        let (won, lost) = (Step::Claim(request(&id())), Step::Claim(request(&id())));
        let (yours, busy) = (key.call(&won), key.call(&lost));
        let (first, second) = if winner_first { ((0, 5), (1, 4)) } else { ((1, 4), (0, 5)) };
        let mut ops = vec![op(first, won, yours), op(second, lost, busy)];
        ops.sort_by_key(|op| op.begun);
        explained(&free, &ops);
    }
}

#[test]
fn s01_of_two_first_claims_both_cannot_be_told_that_the_key_is_theirs() {
    let free = Key::default();
    let claim = || Step::Claim(request(&id()));
    let (one, other) = (claim(), claim());
    let yours = |step: &Step| Key::default().call(step);
    let ops = [op((0, 3), one.clone(), yours(&one)), op((1, 2), other.clone(), yours(&other))];
    not_explained(&free, &ops);

    // With one operation id for both.
    let Reply::Claim(Ok(ClaimOutcome::Claimed(mine))) = yours(&one) else { panic!("a free key") };
    let his = Claim::new(id(), mine.fence(), mine.fingerprint(), Origin::New);
    let both = [mine, his].map(|claim| Reply::Claim(Ok(ClaimOutcome::Claimed(claim))));
    let [mine, his] = both;
    not_explained(&free, &[op((0, 3), one, mine), op((1, 2), other, his)]);
}

#[test]
fn s05_an_answer_that_is_there_does_not_go_away_again() {
    let mut key = Key::default();
    let owner = key.claim();
    let before = key.clone();
    let late = Step::Claim(request(&id()));
    let busy = || key.clone().call(&late);
    let done = || complete(&owner, "done");
    explained(&before, &[op((0, 2), done(), OK), op((1, 3), late.clone(), busy())]);
    not_explained(&before, &[op((0, 1), done(), OK), op((2, 3), late.clone(), busy())]);
}

#[test]
fn s05_a_look_after_the_end_shows_the_end() {
    let mut key = Key::default();
    let owner = key.claim();
    let (before, at_work) = (key.clone(), key.look());
    key.call(&complete(&owner, "done"));
    let Reply::Found(at_work) = at_work else { panic!("a look") };
    let at_work = || Reply::Found(at_work.clone());
    let end = || complete(&owner, "done");
    explained(&before, &[op((0, 3), end(), OK), find((1, 2), at_work())]);
    explained(&before, &[op((0, 3), end(), OK), find((1, 2), key.look())]);
    not_explained(&before, &[op((0, 1), end(), OK), find((2, 3), at_work())]);
    not_explained(&before, &[op((0, 5), end(), OK), find((1, 2), key.look()), find((3, 4), at_work())]);
}

#[test]
fn s17_a_checkpoint_that_was_taken_is_not_lost() {
    let mut key = Key::default();
    let owner = key.claim();
    let before = key.clone();
    let note = |number| Step::Checkpoint(Arc::clone(&owner), point(number, "charging"), Rerun::Always);
    key.call(&note(1));
    let first_only = key.look();
    not_explained(&before, &[op((0, 2), note(1), OK), op((1, 3), note(2), OK), find((4, 5), first_only)]);
    key.call(&note(2));
    explained(&before, &[op((0, 2), note(1), OK), op((1, 3), note(2), OK), find((4, 5), key.look())]);
}

#[test]
fn s08_an_owner_who_was_replaced_is_not_believed() {
    let (mut key, owner) = Key::stale();
    let before = key.clone();
    let take = Step::Claim(request(&id()));
    let taken = key.call(&take);
    let renew = Step::Renew(owner, LEASE);
    let lost = Reply::Write(Err(StoreErrorKind::ClaimLost));
    let Reply::Claim(Ok(ClaimOutcome::Claimed(claim))) = &taken else { panic!("{taken:?}") };
    let taken = || Reply::Claim(Ok(ClaimOutcome::Claimed(same_claim(claim))));
    explained(&before, &[op((0, 2), take.clone(), taken()), op((1, 3), renew.clone(), lost)]);
    not_explained(&before, &[op((0, 2), take.clone(), taken()), op((1, 3), renew.clone(), OK)]);
    not_explained(&before, &[op((0, 1), take, taken()), op((2, 3), renew, OK)]);
}

#[test]
fn s14_what_nobody_knows_may_be_done_later_or_never_and_not_undone() {
    let mut key = Key::default();
    let owner = key.claim();
    let before = key.clone();
    let end = || complete(&owner, "done");
    key.call(&end());
    explained(&before, &[unknown(0, end()), find((1, 2), before.look())]);
    explained(&before, &[unknown(0, end()), find((1, 2), before.look()), find((3, 4), key.look())]);
    not_explained(&before, &[unknown(0, end()), find((1, 2), key.look()), find((3, 4), before.look())]);
    not_explained(&before, &[find((0, 1), key.look()), unknown(2, end())]);
}

#[test]
fn s14_the_operation_of_a_lost_claim_is_known_once_somebody_is_shown_it() {
    let free = Key::default();
    let mut key = free.clone();
    let claim = Step::Claim(request(&id()));
    key.call(&claim);
    let first = key.look();
    let Reply::Claim(Ok(ClaimOutcome::Claimed(again))) = key.call(&claim) else { panic!("his own claim") };
    assert_eq!(again.origin(), Origin::Reissued);
    let lost = || unknown(0, claim.clone());
    let again = || Reply::Claim(Ok(ClaimOutcome::Claimed(same_claim(&again))));
    explained(&free, &[lost(), find((1, 2), first), op((3, 4), claim.clone(), again())]);

    let mut other = key.0.clone().expect("a record");
    other.operation = OperationId::random();
    let other = Reply::Found(Ok(Some(Box::new(other))));
    not_explained(&free, &[lost(), op((1, 2), claim.clone(), again()), find((3, 4), other)]);
}

#[test]
fn s19_what_was_swept_is_gone() {
    let mut key = Key::default();
    let owner = key.claim();
    key.call(&complete(&owner, "done"));
    let mut expired = key.0.clone().expect("a record");
    expired.expires_at = now();
    let before = Key(Some(expired));
    let sweep = |count| op((0, 1), Step::Sweep(id()), Reply::Swept(Ok(count)));
    explained(&before, &[sweep(1), find((2, 3), Reply::Found(Ok(None)))]);
    explained(&before, &[sweep(0), find((2, 3), before.look())]);
    not_explained(&before, &[sweep(1), find((2, 3), before.look())]);
    not_explained(&before, &[sweep(0), find((2, 3), Reply::Found(Ok(None)))]);
}

#[test]
fn n04_what_is_shown_is_the_shortest_beginning_that_fails() {
    let mut key = Key::default();
    let owner = key.claim();
    let (before, at_work) = (key.clone(), key.look());
    let late = || op((4, 5), Step::Release(Arc::clone(&owner), RETENTION), OK);
    let why =
        not_explained(&before, &[op((0, 1), complete(&owner, "done"), OK), find((2, 3), at_work), late()]);
    assert!(!why.contains("release"), "{why}");
    assert!(why.contains("The order [0] explains the most"), "{why}");
    assert!(why.contains("1. has to be answered: completed with \"done\""), "{why}");
}

#[test]
fn n04_a_search_that_takes_too_long_says_so() {
    let mut key = Key::default();
    let owner = key.claim();
    let before = key.clone();
    let ops = [op((0, 1), complete(&owner, "done"), OK), find((2, 3), before.look())];
    let verdict = |steps| search(before.0.as_ref(), &cut(&ops, u64::MAX), window(), steps);
    assert!(matches!(verdict(1), Verdict::GaveUp));
    assert!(matches!(verdict(100), Verdict::NotLinearizable(_)));
    let many: Vec<_> = (0..65).map(|number| find((2 * number, 2 * number + 1), before.look())).collect();
    assert!(matches!(search(None, &cut(&many, u64::MAX), window(), 100), Verdict::GaveUp));
}

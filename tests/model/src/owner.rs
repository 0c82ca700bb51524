//! The engine and its handler: what an attempt sends next, and what it makes of what comes back.

use crate::{
    machine::{Journal, Mark, Reruns},
    model::{Kind, Model},
    promise::Promise,
    rule::Rule,
    sometimes::Sometimes,
    world::{At, Attempt, Fence, Reply, Said, Statement, World},
};

/// An attempt's number in `World::attempts`; its id is one more.
pub(crate) type Number = usize;

/// The attempt id, which is also the answer and the result that it produces.
pub(crate) fn id(number: Number) -> u8 {
    u8::try_from(number).expect("three attempts") + 1
}

impl Model {
    /// What the attempt sends next; nothing where it has ended or waits for a reply.
    pub(crate) fn statement(&self, world: &World, number: Number) -> Option<Statement> {
        let attempt = &world.attempts[number];
        let (by, fence) = (id(number), attempt.fence);
        let checkpoint = |skip, journal, rerun| Statement::Checkpoint {
            by,
            fence,
            number: attempt.checkpoint + 1 + skip,
            journal,
            rerun,
        };
        let rerun_without = |effect: u8| {
            let other = attempt.journal.with(effect, Mark::Blank).open().next().is_some();
            if other { Reruns::Keep } else { Reruns::Always }
        };
        Some(match attempt.at {
            At::Claim => Statement::Claim { by },
            At::Take(seen) => Statement::Take { by, seen },
            At::Mark(effect) => {
                let rerun = if attempt.again { Reruns::Again } else { self.first_mark(effect) };
                checkpoint(0, attempt.journal.with(effect, Mark::Open), rerun)
            }
            At::Note(effect) => {
                checkpoint(0, attempt.journal.with(effect, Mark::Result(by)), rerun_without(effect))
            }
            At::Withdraw { effect, skip } => {
                checkpoint(skip, attempt.journal.with(effect, Mark::Blank), rerun_without(effect))
            }
            At::Call(effect) => {
                let key = self.provider_key(number, attempt);
                let due = world.clock + self.bounds.delay;
                Statement::Call { by, effect, key, life: fence.life, due }
            }
            At::Complete => Statement::Complete { by, fence },
            At::Release => Statement::Release { fence },
            At::HandOn => Statement::Renew { fence, lease: 0 },
            At::Answered(_) | At::Dead => return None,
        })
    }

    fn first_mark(&self, effect: u8) -> Reruns {
        let margin = if self.breaks(Rule::Margin) { 0 } else { self.bounds.margin() };
        match self.effects[usize::from(effect)] {
            Kind::Keyed => Reruns::Until(self.bounds.window - margin),
            Kind::Natural | Kind::AtMostOnce | Kind::Opaque => Reruns::Never,
        }
    }

    /// From the fingerprint of the record as it was handed over, and from nothing that changes.
    fn provider_key(&self, number: Number, attempt: &Attempt) -> u8 {
        let own = self.request(id(number)).print;
        let print = if self.breaks(Rule::KeyOfRecord) { own } else { attempt.print };
        let token = if self.breaks(Rule::KeyWithoutToken) { attempt.fence.token } else { 0 };
        print.version + 4 * print.body + 16 * token
    }

    /// Where an attempt turns without sending anything, since it may not call now.
    pub(crate) fn turn(&self, world: &World, number: Number) -> Option<At> {
        let attempt = &world.attempts[number];
        let At::Call(effect) = attempt.at else { return None };
        if world.clock >= attempt.lease && !self.breaks(Rule::LeaseBeforeCall) {
            self.reached(Sometimes::LeaseOverBeforeCall);
            return Some(At::Answered(Said::InProgress));
        }
        let old = world.clock >= attempt.marked + self.bounds.call_within;
        let marks = self.effects[usize::from(effect)].is_keyed()
            && !self.breaks_any(&[Rule::MarkFirst, Rule::EveryCallMarks]);
        (marks && old).then_some(At::Mark(effect))
    }

    /// What must hold whenever a call is started.
    pub(crate) fn judge_call(&self, world: &mut World, number: Number, effect: u8) {
        let attempt = &world.attempts[number];
        let (life, ran) = (attempt.fence.life, attempt.ran);
        let at = usize::from(effect);
        if ran != 0 && ran != life {
            world.broken.note(Promise::OneOperation);
        }
        world.attempts[number].ran = life;
        if life == 0 {
            return world.broken.note(Promise::S2);
        }
        let known = world.known.of[usize::from(life) - 1];
        let marked = known.marked[at] || self.effects[at].is_natural();
        if !marked || known.token < world.attempts[number].fence.token {
            world.broken.note(Promise::S2);
        }
        if known.results[at] != 0 {
            world.broken.note(Promise::S17);
        }
    }

    /// Takes a reply to what was sent at the tick `sent`.
    pub(crate) fn take_reply(&self, world: &mut World, number: Number, reply: Reply, sent: u8) {
        let clock = world.clock;
        let attempt = &mut world.attempts[number];
        let by = id(number);
        let unknown = std::mem::take(&mut attempt.unknown);
        if unknown && reply == Reply::TooLate && !self.breaks(Rule::NumberOnce) {
            attempt.checkpoint += 1; // the first of the two may have landed: its number is not used again
        }
        let said = |said| At::Answered(said);
        attempt.at = match (attempt.at, reply) {
            (_, Reply::Claimed { fence, print, checkpoint, journal }) => {
                (attempt.fence, attempt.print) = (fence, print);
                (attempt.checkpoint, attempt.journal) = (checkpoint, journal);
                let counted = if self.breaks(Rule::LeaseCountsFromSent) { clock } else { sent };
                attempt.lease = counted + self.bounds.lease;
                if clock >= attempt.lease {
                    self.reached(Sometimes::ClaimAnsweredLate);
                }
                self.next(number, attempt)
            }
            (_, Reply::Write(seen)) => At::Take(seen),
            (_, Reply::StartAgain) => At::Claim,
            (_, Reply::Completed { life, response }) => said(Said::Replay { life, response }),
            (_, Reply::InProgress) => said(Said::InProgress),
            (_, Reply::InDoubt) => said(Said::InDoubt),
            (_, Reply::Mismatch) => said(Said::Mismatch),
            (_, Reply::Unavailable) => said(Said::Unavailable),
            (At::HandOn, _) => said(Said::HandedOn),
            (_, Reply::Lost) if self.breaks(Rule::LoserNeverClaims) => At::Claim,
            (_, Reply::Lost) => said(Said::InProgress),
            (At::Mark(_), Reply::TooLate) => {
                self.reached(Sometimes::TooLate);
                At::HandOn
            }
            (At::Release, Reply::Invalid) => {
                world.broken.note(Promise::S16);
                said(Said::Fault)
            }
            (_, Reply::TooLate | Reply::Invalid | Reply::Fault) => said(Said::Fault),
            (at, Reply::Done) => self.done(at, by, attempt, sent, clock),
        };
        self.reach_answer(world, number);
    }

    fn done(&self, at: At, by: u8, attempt: &mut Attempt, sent: u8, clock: u8) -> At {
        match at {
            At::Mark(effect) => {
                attempt.checkpoint += 1;
                attempt.journal = attempt.journal.with(effect, Mark::Open);
                attempt.marked = if self.breaks(Rule::MarkCountsFromSent) { clock } else { sent };
                At::Call(effect)
            }
            At::Call(effect) if self.effects[usize::from(effect)] == Kind::Opaque => {
                // The handler returned: what it returned is the answer, no result is noted before.
                attempt.journal = attempt.journal.with(effect, Mark::Result(by));
                self.next(usize::from(by) - 1, attempt)
            }
            At::Call(effect) => At::Note(effect),
            At::Note(effect) => {
                attempt.checkpoint += 1;
                attempt.journal = attempt.journal.with(effect, Mark::Result(by));
                self.next(usize::from(by) - 1, attempt)
            }
            At::Withdraw { effect, skip } => {
                attempt.checkpoint += 1 + skip;
                attempt.journal = attempt.journal.with(effect, Mark::Blank);
                self.fail(attempt.journal)
            }
            At::Complete => At::Answered(Said::Success { life: attempt.fence.life, response: by }),
            At::Release => At::Answered(Said::Failed),
            At::HandOn => At::Answered(Said::HandedOn),
            At::Claim | At::Take(_) | At::Answered(_) | At::Dead => at,
        }
    }

    /// Where a failed handler leads: recorded results are handed on, and so is what is open.
    pub(crate) fn fail(&self, journal: Journal) -> At {
        let recorded = journal.holds_result() && !self.breaks(Rule::ReleaseNothingRecorded);
        if recorded || journal.open().next().is_some() { At::HandOn } else { At::Release }
    }

    /// The next effect that has no result, or the end.
    pub(crate) fn next(&self, number: Number, attempt: &mut Attempt) -> At {
        (attempt.again, attempt.marked) = (false, 0);
        let count = self.effects.len();
        for turn in 0..count {
            let at = if self.bounds.reversed && number % 2 == 1 { count - 1 - turn } else { turn };
            let effect = u8::try_from(at).expect("two effects");
            match attempt.journal.0[at] {
                Mark::Result(_) => continue,
                _ if attempt.passed[at] => continue,
                Mark::Open if self.breaks(Rule::MarkIsNoResult) => continue,
                Mark::Open => {
                    let kind = self.effects[at];
                    if !kind.is_keyed() && !self.breaks(Rule::OpenNotRepeated) {
                        return At::HandOn;
                    }
                    attempt.again = kind.is_keyed();
                }
                Mark::Blank => {}
            }
            let unmarked = self.effects[at].is_natural() || self.breaks(Rule::MarkFirst);
            return if unmarked { At::Call(effect) } else { At::Mark(effect) };
        }
        let passed = attempt.passed.contains(&true);
        if passed { At::HandOn } else { At::Complete }
    }

    /// The outcome of what was sent is not known: the same call again, for whatever can be sent again.
    pub(crate) fn outcome_unknown(&self, world: &mut World, number: Number) {
        let (clock, lives) = (world.clock, world.known.lives);
        let attempt = &mut world.attempts[number];
        attempt.unknown = true;
        attempt.at = match attempt.at {
            At::Claim if self.breaks(Rule::ClaimAcknowledged) => {
                attempt.fence = Fence { operation: 1, token: 1, life: lives };
                attempt.lease = clock + self.bounds.lease;
                self.next(number, attempt)
            }
            At::Take(_) => At::Claim,
            At::Mark(effect) if self.breaks(Rule::MarkAcknowledged) => {
                attempt.checkpoint += 1;
                attempt.journal = attempt.journal.with(effect, Mark::Open);
                attempt.marked = clock;
                At::Call(effect)
            }
            At::Call(effect) => self.call_unknown(attempt, effect),
            At::Complete if self.breaks(Rule::UnknownIsNoFailure) => At::Answered(Said::Failed),
            At::Complete if self.breaks(Rule::UnknownIsNoSuccess) => {
                At::Answered(Said::Success { life: attempt.fence.life, response: id(number) })
            }
            at => at,
        };
    }

    fn call_unknown(&self, attempt: &mut Attempt, effect: u8) -> At {
        match self.effects[usize::from(effect)] {
            Kind::Natural => At::Call(effect),
            Kind::Keyed if self.breaks(Rule::EveryCallMarks) => At::Call(effect),
            Kind::Keyed => {
                attempt.again = true;
                At::Mark(effect)
            }
            Kind::AtMostOnce | Kind::Opaque if self.breaks(Rule::ReleaseNotUnknown) => {
                At::Withdraw { effect, skip: 0 }
            }
            Kind::AtMostOnce | Kind::Opaque if self.breaks(Rule::OpenNotRepeated) => At::Call(effect),
            Kind::AtMostOnce => At::HandOn,
            // A black box that broke off: the key is left to its lease.
            Kind::Opaque => At::Answered(Said::HandedOn),
        }
    }

    fn reach_answer(&self, world: &World, number: Number) {
        if let At::Answered(said) = world.attempts[number].at {
            match said {
                Said::Replay { .. } => self.reached(Sometimes::Replayed),
                Said::InProgress => self.reached(Sometimes::InProgress),
                Said::Mismatch => self.reached(Sometimes::Mismatch),
                Said::InDoubt => self.reached(Sometimes::InDoubt),
                Said::Unavailable => self.reached(Sometimes::NotComparable),
                Said::Success { .. } | Said::Failed | Said::HandedOn | Said::Unknown | Said::Fault => {}
            }
        }
    }
}

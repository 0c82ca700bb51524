//! What a statement does where it lands: the store's side, and the provider's.

use crate::{
    machine::{self, Answer, Call, Decided, Grant, How, Mark, Row, RowState, Settled},
    model::Model,
    promise::Promise,
    rule::{Rule, Stage},
    sometimes::Sometimes,
    world::{EFFECTS, Fence, Life, Reply, Seen, Statement, World},
};

/// The reconciler's attempt id and its answers; attempts are numbered from 1.
pub(crate) const RECONCILER: u8 = 9;

impl Model {
    /// Lands a statement. `None`: beyond what the configuration explores.
    pub(crate) fn land(&self, world: &mut World, statement: Statement) -> Option<Reply> {
        match statement {
            Statement::Claim { by } => self.claim(world, by),
            Statement::Take { by, seen } => self.take(world, by, seen),
            Statement::Call { effect, key, life, .. } => {
                self.provide(world, effect, key, life);
                Some(Reply::Done)
            }
            Statement::Checkpoint { .. }
            | Statement::Renew { .. }
            | Statement::Complete { .. }
            | Statement::Release { .. }
            | Statement::Resolve { .. } => Some(self.write(world, statement)),
        }
    }

    /// The first statement of a claim: it inserts, answers, or says which write to send.
    fn claim(&self, world: &mut World, by: u8) -> Option<Reply> {
        let mine = world.row.is_some_and(|row| row.state == RowState::InProgress && row.attempt == by);
        let (write, answer) = self.decide_claim(world, by, Stage::Look);
        let reply = match answer {
            Answer::Claimed(grant) if grant.how == How::New && !self.breaks(Rule::InsertFirst) => {
                return self.create(world, by, write?, grant);
            }
            Answer::Claimed(grant) => {
                let row = world.row.or(write)?;
                let (checkpoint, journal) =
                    if self.breaks_any(&[Rule::HandedFromWrite, Rule::NumberFromWrite]) {
                        (row.checkpoint, row.journal)
                    } else {
                        (0, None)
                    };
                let (operation, token) = (row.operation, row.token);
                return Some(Reply::Write(Seen { how: grant.how, operation, token, checkpoint, journal }));
            }
            Answer::Completed(response) => Reply::Completed { life: world.known.lives, response },
            Answer::InProgress => Reply::InProgress,
            Answer::InDoubt => Reply::InDoubt,
            Answer::Mismatch => Reply::Mismatch,
            Answer::Unavailable => Reply::Unavailable,
            Answer::Invalid => Reply::Fault,
            Answer::Done | Answer::Lost | Answer::TooLate => unreachable!("not an answer to a claim"),
        };
        let same = world.row.is_some_and(|row| row.fingerprint.body == self.request(by).print.body);
        if mine && same && reply != Reply::Unavailable {
            world.broken.note(Promise::S14); // its own claim was not recognised
        }
        if matches!(reply, Reply::Completed { .. }) && !same || reply == Reply::Mismatch && same {
            world.broken.note(Promise::S10);
        }
        Some(reply)
    }

    /// The second statement: every condition of its row of the table again, on the row as it is now.
    fn take(&self, world: &mut World, by: u8, seen: Seen) -> Option<Reply> {
        if seen.how == How::New && world.row.is_some() {
            return Some(Reply::Fault); // a read that was not made sure of: the insert is a duplicate
        }
        let (write, answer) = self.decide_claim(world, by, Stage::Write(seen));
        let Some(row) = world.row.or(write) else { return Some(Reply::StartAgain) };
        let Answer::Claimed(grant) = answer else { return Some(Reply::StartAgain) };
        let as_seen = grant.how == seen.how && row.operation == seen.operation && row.token == seen.token;
        if !as_seen && !self.breaks_any(&[Rule::TakeCompares, Rule::TakeClientToken, Rule::WipeCompares]) {
            self.reached(Sometimes::TakeLost);
            return Some(Reply::StartAgain);
        }
        match grant.how {
            // Only where inserting is the second statement, which is a rule broken.
            How::New if seen.how == How::New => self.create(world, by, write?, grant),
            How::New => Some(Reply::StartAgain),
            How::Expired => {
                if !row.is_over(world.clock) {
                    world.broken.note(Promise::S13);
                }
                self.reached(Sometimes::Wiped);
                self.create(world, by, write?, grant)
            }
            How::Reissued | How::Retried | How::TakenOver => {
                self.judge_take(world, by, &row, grant.how);
                let write = write?;
                if write.fingerprint != row.fingerprint {
                    world.broken.note(Promise::S10);
                }
                if write.checkpoint < row.checkpoint {
                    world.broken.note(Promise::S17);
                }
                world.row = Some(write);
                Some(self.grant(world, by, &write, grant))
            }
        }
    }

    fn judge_take(&self, world: &mut World, by: u8, row: &Row, how: How) {
        match how {
            How::TakenOver => {
                if !row.is_stuck(world.clock) || row.is_doubtful(world.clock) {
                    world.broken.note(Promise::S1b);
                }
                if row.attempt == by {
                    world.broken.note(Promise::S14); // its own claim, under another fence
                }
                if row.journal().holds_result() {
                    self.reached(Sometimes::ResumedFromResult);
                }
            }
            How::Retried => self.reached(Sometimes::Retried),
            How::Reissued if world.clock < row.lease => self.reached(Sometimes::ReissuedLive),
            How::Reissued => self.reached(Sometimes::ReissuedStale),
            How::New | How::Expired => {}
        }
    }

    /// A new life of the record.
    fn create(&self, world: &mut World, by: u8, write: Row, grant: Grant) -> Option<Reply> {
        if world.known.lives >= self.bounds.lives {
            // One life more than is explored, unless the step that leads there has broken a promise.
            return world.broken.any().then_some(Reply::StartAgain);
        }
        if let Some(row) = world.row.filter(|row| row.state != RowState::InProgress) {
            world.known.window += u8::from(row.is_over(world.clock));
        }
        world.row = Some(write);
        world.known.lives += 1;
        let window = world.known.window;
        *world.life() = Life { window, operation: write.operation, ..Life::default() };
        Some(self.grant(world, by, &write, grant))
    }

    /// What is handed over, and what must hold of it.
    fn grant(&self, world: &mut World, by: u8, row: &Row, grant: Grant) -> Reply {
        if row.fingerprint.body != self.request(by).print.body || !self.carries(by, row.fingerprint.version) {
            world.broken.note(Promise::S10);
        }
        if (grant.checkpoint, grant.journal, grant.print) != (row.checkpoint, row.journal, row.fingerprint) {
            world.broken.note(Promise::HandedOver);
        }
        let (operation, token) = grant.fence;
        let lives = usize::from(world.known.lives);
        let older = &world.known.of[..lives - 1];
        let repeated = older.iter().any(|life| life.operation == operation && token <= life.token);
        let life = world.life();
        if repeated || token < life.token || token == life.token && by != life.owner {
            world.broken.note(Promise::S1);
        }
        let life = world.life();
        if token > life.token {
            (life.token, life.owner) = (token, by);
        }
        self.judge_again(world, Statement::Claim { by });
        let fence = Fence { operation, token, life: world.known.lives };
        let journal = grant.journal.unwrap_or_default();
        Reply::Claimed { fence, print: grant.print, checkpoint: grant.checkpoint, journal }
    }

    /// Every write after the claim.
    fn write(&self, world: &mut World, statement: Statement) -> Reply {
        let (write, answer) = self.decide_write(world, statement);
        if let Some(after) = write {
            let before = world.row.replace(after);
            self.judge_write(world, statement, before, &after);
        }
        if answer == Answer::Done {
            self.judge_again(world, statement);
        }
        match answer {
            Answer::Done => Reply::Done,
            Answer::Lost => Reply::Lost,
            Answer::TooLate => Reply::TooLate,
            Answer::Invalid => Reply::Invalid,
            Answer::Unavailable => Reply::Unavailable,
            Answer::Claimed(_)
            | Answer::Completed(_)
            | Answer::InProgress
            | Answer::InDoubt
            | Answer::Mismatch => unreachable!("not an answer to a write"),
        }
    }

    /// A call that arrives at its provider.
    fn provide(&self, world: &mut World, effect: u8, key: u8, life: u8) {
        let (clock, effect) = (world.clock, usize::from(effect));
        if life == 0 {
            return; // no claim of any life is behind it, which was noted when it was sent
        }
        let known = world.provider[effect];
        let window = world.window(life);
        window.called[effect] = true;
        let kind = self.effects[effect];
        let repeated = kind.is_keyed()
            && known.is_some_and(|(seen, first)| seen == key && clock < first + self.bounds.window);
        if repeated {
            self.reached(Sometimes::Deduplicated);
        } else {
            let at_most = if kind.is_natural() { 1 } else { 2 };
            window.effects[effect] = (window.effects[effect] + 1).min(at_most);
            world.provider[effect] = kind.is_keyed().then_some((key, clock));
        }
    }

    fn decide_claim(&self, world: &World, by: u8, stage: Stage) -> Decided {
        let request = self.request(by);
        let call = Call::Claim {
            attempt: by,
            print: request.print,
            accepts: request.accepts,
            lease: self.bounds.lease,
            retention: self.bounds.retention,
            fresh: world.known.lives + 1,
        };
        self.decide(stage, world.row, call, world.clock)
    }

    fn decide_write(&self, world: &World, statement: Statement) -> Decided {
        let fence = |fence: Fence| (fence.operation, fence.token);
        let retention = self.bounds.retention;
        let call = match statement {
            Statement::Checkpoint { fence: f, number, journal, rerun, .. } => {
                Call::Checkpoint { fence: fence(f), number, journal, rerun }
            }
            Statement::Renew { fence: f, lease } => Call::Renew { fence: fence(f), lease },
            Statement::Complete { by, fence: f } => {
                Call::Complete { fence: fence(f), response: by, retention }
            }
            Statement::Release { fence: f } => Call::Release { fence: fence(f), retention },
            Statement::Resolve { seen, decision } => {
                Call::Resolve { seen, decision, retention, fresh: RECONCILER }
            }
            Statement::Claim { .. } | Statement::Take { .. } | Statement::Call { .. } => {
                unreachable!("not a write after the claim")
            }
        };
        self.decide(Stage::Later, world.row, call, world.clock)
    }

    /// What must hold of every write after the claim that changed something.
    fn judge_write(&self, world: &mut World, statement: Statement, before: Option<Row>, after: &Row) {
        let Some(before) = before else { return world.broken.note(Promise::S8) };
        let (lives, clock, retention) = (world.known.lives, world.clock, self.bounds.retention);
        let shown = match statement {
            Statement::Checkpoint { fence, .. }
            | Statement::Renew { fence, .. }
            | Statement::Complete { fence, .. }
            | Statement::Release { fence } => fence.life == lives && fence.token == before.token,
            Statement::Resolve { .. }
            | Statement::Claim { .. }
            | Statement::Take { .. }
            | Statement::Call { .. } => true,
        };
        if !shown || before.state != RowState::InProgress {
            world.broken.note(Promise::S8);
        }
        if after.expires < before.expires {
            world.broken.note(Promise::S5);
        }
        if after.checkpoint < before.checkpoint {
            world.broken.note(Promise::S17);
        }
        let (was, is) = (before.journal(), after.journal());
        let life = world.life();
        for effect in 0..EFFECTS {
            life.marked[effect] |= is.0[effect] == Mark::Open;
            if let (Mark::Result(result), true) = (is.0[effect], was.0[effect] != is.0[effect]) {
                life.results[effect] = result;
            }
        }
        if let RowState::Completed(response) = after.state {
            (life.response, life.until) = (response, clock + retention);
        }
        self.reach_write(statement, &before, after, clock);
    }

    /// The same call again, as after a lost reply: it must get the same answer.
    fn judge_again(&self, world: &mut World, statement: Statement) {
        let answer = match statement {
            Statement::Claim { by } => {
                let (_, answer) = self.decide_claim(world, by, Stage::Look);
                let recognised = matches!(answer, Answer::Claimed(grant) if grant.how == How::Reissued);
                if recognised { Answer::Done } else { answer }
            }
            _ => self.decide_write(world, statement).1,
        };
        // A resolution of something else than was seen is another promise's matter.
        let as_seen = match (statement, world.row) {
            (Statement::Resolve { seen, .. }, Some(row)) => row.version == seen.version + 1,
            _ => true,
        };
        if answer != Answer::Done && as_seen {
            world.broken.note(Promise::S14);
        }
        if let (Statement::Renew { lease: 0, .. }, Some(row)) = (statement, world.row)
            && world.clock < row.lease
        {
            world.broken.note(Promise::L1); // handed on, and nobody can go on
        }
    }

    fn reach_write(&self, statement: Statement, before: &Row, after: &Row, clock: u8) {
        match statement {
            Statement::Complete { .. } => {
                if after.token > 1 {
                    self.reached(Sometimes::CompletedAfterTakeover);
                }
                if machine::is_in_doubt(before, clock) {
                    self.reached(Sometimes::SlowOwnerCompletes);
                }
            }
            Statement::Release { .. } => self.reached(Sometimes::Released),
            Statement::Resolve { decision, .. } => self.reached(match decision {
                Settled::Complete(_) => Sometimes::ResolvedComplete,
                Settled::Fail => Sometimes::ResolvedFail,
                Settled::Resume { .. } => Sometimes::ResolvedResume,
            }),
            Statement::Checkpoint { rerun: machine::Reruns::Keep, .. } => self.reached(Sometimes::Kept),
            Statement::Checkpoint { .. }
            | Statement::Renew { .. }
            | Statement::Claim { .. }
            | Statement::Take { .. }
            | Statement::Call { .. } => {}
        }
    }
}

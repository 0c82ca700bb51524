//! What each step does.

use crate::{
    action::Action,
    machine::{self, Mark, Row, RowState},
    model::Model,
    owner::{Number, id},
    promise::Promise,
    rule::Rule,
    sometimes::Sometimes,
    world::{At, Reconciler, Reply, Said, Statement, World},
};

impl Model {
    /// Takes one step. `None`: it leads beyond what is explored, or nowhere.
    pub(crate) fn act(&self, next: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Step(number) => self.step(next, number)?,
            Action::LoseReply(number)
            | Action::LoseRequest(number)
            | Action::Delay(number)
            | Action::Slow(number) => self.disturbed(next, action, number)?,
            Action::Arrive(number) => {
                let (reply, sent) = next.attempts[number].reply.take()?;
                self.take_reply(next, number, reply, sent);
            }
            Action::Crash(number) => self.crash(next, number),
            Action::Heartbeat(number) => self.renew(next, number, false)?,
            Action::DelayHeartbeat(number) => self.renew(next, number, true)?,
            Action::Reissue(number) => self.reissue(next, number)?,
            Action::Fail(number)
            | Action::NotDone(number)
            | Action::HandOn(number)
            | Action::GiveUp(number)
            | Action::GoPast(number) => self.failed_step(next, action, number),
            Action::Land(place) => self.land_late(next, place)?,
            Action::Tick => next.clock += 1,
            Action::Pick => next.picked = true,
            Action::Sweep => self.sweep(next),
            Action::Look => Self::look(next),
            Action::Resolve(_) | Action::LoseResolveReply(_) | Action::DelayResolve(_) => {
                self.reconcile(next, action)?;
            }
        }
        Some(())
    }

    /// The attempt's next step without a fault.
    pub(crate) fn step(&self, world: &mut World, number: Number) -> Option<()> {
        if let Some(at) = self.turn(world, number) {
            world.attempts[number].at = at;
            world.attempts[number].again |= matches!(at, At::Mark(_));
            return Some(());
        }
        let statement = self.send(world, number)?;
        let free = world.late.contains(&None);
        if matches!(statement, Statement::Complete { .. }) && free && self.breaks(Rule::AnswerAfterCommit) {
            self.take_reply(world, number, Reply::Done, world.clock);
            world.send_late(statement);
            return Some(());
        }
        let reply = self.land(world, statement)?;
        self.take_reply(world, number, reply, world.clock);
        Some(())
    }

    fn send(&self, world: &mut World, number: Number) -> Option<Statement> {
        let statement = self.statement(world, number)?;
        if let Statement::Call { effect, .. } = statement {
            self.judge_call(world, number, effect);
        }
        Some(statement)
    }

    fn failed_step(&self, world: &mut World, action: Action, number: Number) {
        world.failures +=
            u8::from(!matches!((action, world.attempts[number].at), (Action::GiveUp(_), At::Complete)));
        let attempt = &mut world.attempts[number];
        let stops = matches!(action, Action::HandOn(_) | Action::GoPast(_));
        if stops
            && attempt.unknown
            && matches!(attempt.at, At::Mark(_) | At::Note(_))
            && !self.breaks(Rule::NumberOnce)
        {
            attempt.checkpoint += 1; // that one may have landed: its number is not used again
        }
        if let (true, At::Note(effect)) = (stops && !self.breaks(Rule::ResultFromCall), attempt.at) {
            // It happened, whether or not that is committed: no later checkpoint calls it open.
            attempt.journal = attempt.journal.with(effect, Mark::Result(id(number)));
        }
        attempt.at = match (action, attempt.at) {
            (Action::Fail(_), _) => self.fail(attempt.journal),
            (Action::NotDone(_), At::Call(effect)) => At::Withdraw { effect, skip: 0 },
            (Action::GiveUp(_), At::Mark(_)) if self.breaks(Rule::WithdrawBeforeRelease) => At::Release,
            (Action::GiveUp(_), At::Mark(effect)) => {
                At::Withdraw { effect, skip: u8::from(!self.breaks(Rule::WithdrawSkips)) }
            }
            (Action::GiveUp(_), _) => {
                self.reached(Sometimes::SaidUnknown);
                At::Answered(Said::Unknown)
            }
            (Action::GoPast(_), _) => {
                for effect in attempt.journal.open() {
                    attempt.passed[effect] = true;
                }
                self.next(number, attempt)
            }
            _ => At::HandOn,
        };
        attempt.unknown = false;
    }

    fn crash(&self, world: &mut World, number: Number) {
        world.faults += 1;
        let attempt = &mut world.attempts[number];
        (attempt.at, attempt.reply) = (At::Dead, None);
        if self.breaks(Rule::ClaimCommitted) {
            // The claim rides in the caller's transaction, which is rolled back.
            world.row =
                world.row.filter(|row| row.state != RowState::InProgress || row.attempt != id(number));
        }
    }

    fn disturbed(&self, world: &mut World, action: Action, number: Number) -> Option<()> {
        world.faults += 1;
        let statement = self.send(world, number)?;
        match action {
            Action::LoseReply(_) => drop(self.land(world, statement)?),
            Action::Delay(_) => world.send_late(statement),
            Action::Slow(_) => {
                let reply = self.land(world, statement)?;
                world.attempts[number].reply = Some((reply, world.clock));
                return Some(());
            }
            _ => {}
        }
        self.outcome_unknown(world, number);
        Some(())
    }

    fn renew(&self, world: &mut World, number: Number, late: bool) -> Option<()> {
        world.attempts[number].renewed = true;
        let (fence, lease) = (world.attempts[number].fence, self.bounds.lease);
        let renew = Statement::Renew { fence, lease };
        if late {
            world.faults += 1;
            world.send_late(renew);
        } else if self.land(world, renew)? == Reply::Done {
            world.attempts[number].lease = world.clock + lease;
        }
        Some(())
    }

    /// Both statements of the claim; any answer but "as before" means that it is lost.
    fn reissue(&self, world: &mut World, number: Number) -> Option<()> {
        let by = id(number);
        let mut reply = self.land(world, Statement::Claim { by })?;
        if let Reply::Write(seen) = reply {
            reply = self.land(world, Statement::Take { by, seen })?;
        }
        let clock = world.clock;
        let attempt = &mut world.attempts[number];
        attempt.renewed = true;
        match reply {
            Reply::Claimed { fence, .. } if fence == attempt.fence => {
                attempt.lease = clock + self.bounds.lease;
            }
            Reply::Claimed { fence, .. } if self.breaks(Rule::ReissueCompares) => {
                (attempt.fence, attempt.lease) = (fence, clock + self.bounds.lease);
            }
            _ => attempt.at = At::Answered(Said::InProgress),
        }
        Some(())
    }

    fn land_late(&self, world: &mut World, place: usize) -> Option<()> {
        let statement = world.late[place].take()?;
        let before = world.row;
        let reply = self.land(world, statement)?;
        let call = matches!(statement, Statement::Call { .. });
        match reply {
            Reply::Lost => self.reached(Sometimes::LateRefused),
            Reply::Invalid => self.reached(Sometimes::LateNumbered),
            Reply::Done if !call && before != world.row => self.reached(Sometimes::LateLands),
            _ => {}
        }
        Some(())
    }

    fn sweep(&self, world: &mut World) {
        world.picked = false;
        let Some(row) = world.row else { return };
        if self.may_sweep(&row, world.clock) || self.breaks(Rule::SweepRechecks) {
            if row.is_over(world.clock) {
                world.known.window += 1;
            } else {
                world.broken.note(Promise::S19);
            }
            self.reached(Sometimes::Swept);
            world.row = None;
        }
    }

    pub(crate) fn may_sweep(&self, row: &Row, clock: u8) -> bool {
        let early = match row.state {
            RowState::InProgress => self.breaks(Rule::SweepEnded) && row.expires <= clock,
            RowState::Failed => self.breaks(Rule::SweepExpired),
            RowState::Completed(_) => false,
        };
        early || machine::is_expired(row, clock)
    }

    fn reconcile(&self, world: &mut World, action: Action) -> Option<()> {
        let ((
            Reconciler::Looked { seen, .. },
            Action::Resolve(decision) | Action::LoseResolveReply(decision) | Action::DelayResolve(decision),
        )
        | (Reconciler::Unknown { seen, decision }, _)) = (world.reconciler, action)
        else {
            return None;
        };
        match action {
            Action::LoseResolveReply(_) => drop(self.land(world, Self::resolution(seen, decision))?),
            Action::DelayResolve(_) => world.send_late(Self::resolution(seen, decision)),
            _ => return self.resolve(world, seen, decision),
        }
        world.faults += 1;
        world.reconciler = Reconciler::Unknown { seen, decision };
        Some(())
    }
}

//! Which steps can follow a state.

use crate::{
    machine::Settled,
    model::{Kind, Model},
    owner::Number,
    rule::Rule,
    world::{At, Reconciler, World},
};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// The attempt sends what comes next, it lands, and is answered; or the attempt turns.
    Step(Number),
    /// It lands, and the reply is lost.
    LoseReply(Number),
    /// It never arrives.
    LoseRequest(Number),
    /// It may land at any later time; nobody waits for it.
    Delay(Number),
    /// It lands now, and the reply is under way.
    Slow(Number),
    /// The slow reply arrives.
    Arrive(Number),
    Crash(Number),
    Heartbeat(Number),
    DelayHeartbeat(Number),
    /// The claim is sent again in the middle of a run, as to settle a transaction whose commit is unknown.
    Reissue(Number),
    /// The handler fails before its next effect or its end.
    Fail(Number),
    /// The call was definitely not done.
    NotDone(Number),
    /// The engine is told to stop.
    HandOn(Number),
    /// A mark that cannot be settled is withdrawn; an end that cannot be settled is told as unknown.
    GiveUp(Number),
    /// The handler does not know how an effect went, and goes past it.
    GoPast(Number),
    /// A late statement or call lands.
    Land(usize),
    Tick,
    Pick,
    Sweep,
    Look,
    Resolve(Settled),
    LoseResolveReply(Settled),
    DelayResolve(Settled),
}

impl Model {
    /// Every step that can follow.
    pub(crate) fn may_follow(&self, world: &World, actions: &mut Vec<Action>) {
        for number in 0..self.requests.len() {
            self.actions_of(world, number, actions);
        }
        actions.extend((0..world.late.len()).filter(|&place| world.late[place].is_some()).map(Action::Land));
        if world.clock < self.bounds.clock && world.calls_due().all(|due| due > world.clock) {
            actions.push(Action::Tick);
        }
        if world.picked {
            actions.push(Action::Sweep);
        } else if world.row.is_some_and(|row| self.may_sweep(&row, world.clock)) {
            actions.push(Action::Pick);
        }
        if self.bounds.reconciler {
            self.reconciler_actions(world, actions);
        }
    }

    fn actions_of(&self, world: &World, number: Number, actions: &mut Vec<Action>) {
        let attempt = &world.attempts[number];
        if attempt.is_over() {
            return;
        }
        let (fault, free) = (world.faults < self.bounds.faults, world.late.contains(&None));
        if fault {
            actions.push(Action::Crash(number));
        }
        if attempt.reply.is_some() {
            return actions.push(Action::Arrive(number));
        }
        actions.push(Action::Step(number));
        if fault && self.turn(world, number).is_none() {
            actions.extend([Action::LoseReply(number), Action::LoseRequest(number)]);
            if free {
                actions.push(Action::Delay(number));
            }
            if matches!(attempt.at, At::Claim | At::Take(_) | At::Mark(_)) {
                actions.push(Action::Slow(number));
            }
        }
        let beats = matches!(attempt.at, At::Mark(_) | At::Call(_) | At::Note(_) | At::Complete);
        if self.bounds.heartbeat && beats && !attempt.renewed {
            actions.extend([Action::Heartbeat(number), Action::Reissue(number)]);
            if fault && free {
                actions.push(Action::DelayHeartbeat(number));
            }
        }
        if attempt.at == At::Complete && attempt.unknown {
            actions.push(Action::GiveUp(number));
        }
        if world.failures < self.bounds.failures {
            self.failures_of(world, number, actions);
        }
    }

    /// What a handler or an engine that stops may do, where the rules let it.
    fn failures_of(&self, world: &World, number: Number, actions: &mut Vec<Action>) {
        let attempt = &world.attempts[number];
        match attempt.at {
            At::Mark(_) => {
                if !attempt.unknown && !attempt.again {
                    actions.push(Action::Fail(number));
                }
                if attempt.unknown && !attempt.again {
                    actions.push(Action::GiveUp(number));
                }
                if attempt.again && self.effects.len() > 1 && !attempt.passed.contains(&true) {
                    actions.push(Action::GoPast(number));
                }
                actions.push(Action::HandOn(number));
            }
            At::Call(effect) => {
                let kind = self.effects[usize::from(effect)];
                if kind.is_natural() {
                    actions.push(Action::Fail(number));
                } else if !attempt.again && kind != Kind::Opaque {
                    actions.push(Action::NotDone(number));
                }
            }
            At::Note(_) => actions.push(Action::HandOn(number)),
            At::Complete => {
                actions.push(Action::HandOn(number));
                if !attempt.unknown && !self.effects.contains(&Kind::Opaque) {
                    actions.push(Action::Fail(number));
                }
            }
            At::HandOn if self.effects.len() > 1 && !attempt.passed.contains(&true) => {
                // Once the key may be handed on, nothing is called any more.
                if !attempt.unknown || self.breaks(Rule::HandOnIsLast) {
                    actions.push(Action::GoPast(number));
                }
            }
            At::Claim
            | At::Take(_)
            | At::Withdraw { .. }
            | At::Release
            | At::HandOn
            | At::Answered(_)
            | At::Dead => {}
        }
    }

    fn reconciler_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let fault = world.faults < self.bounds.faults;
        match world.reconciler {
            Reconciler::Waiting if self.may_look(world) => actions.push(Action::Look),
            Reconciler::Looked { seen, happened } => {
                for decision in self.decisions(&seen, happened) {
                    actions.push(Action::Resolve(decision));
                    if fault {
                        actions.push(Action::LoseResolveReply(decision));
                    }
                    if fault && world.late.contains(&None) {
                        actions.push(Action::DelayResolve(decision));
                    }
                }
            }
            Reconciler::Unknown { decision, .. } => actions.push(Action::Resolve(decision)),
            Reconciler::Waiting | Reconciler::Over => {}
        }
    }
}

//! A trace, told as a story.

use std::fmt::Write as _;

use crate::{
    action::Action,
    machine::{ALWAYS, Mark, NEVER, OVER, Reruns, Row, RowState, Settled},
    model::Model,
    owner::{Number, id},
    world::{At, EFFECTS, Said, Statement, World},
};

const NAMES: [&str; EFFECTS] = ["A", "B"];

/// One line for a step: what happened, and the row after it.
pub(crate) fn line(model: &Model, before: &World, action: Action, after: &World) -> String {
    let mut line = format!("{:>4}  {}", format!("t{}", before.clock), happened(model, before, action));
    for number in 0..model.requests.len() {
        if let (At::Answered(said), false) = (after.attempts[number].at, before.attempts[number].is_over()) {
            let _ = write!(line, " -> {}", answer(said));
        }
    }
    let told = |world: &World| {
        let version = |row: &Row| world.is_watched().then_some(row.version);
        world.row.map_or("no record".to_owned(), |row| record(&row, version(&row)))
    };
    if told(before) != told(after) {
        let _ = write!(line, "\n          [{}]", told(after));
    }
    line
}

fn happened(model: &Model, world: &World, action: Action) -> String {
    let sends = |number: Number| match (model.turn(world, number), model.statement(world, number)) {
        (Some(At::Mark(effect)), _) => {
            format!("its mark of {} is too old to call", NAMES[usize::from(effect)])
        }
        (Some(_), _) => "its own lease is over".to_owned(),
        (None, Some(statement)) => sent(&statement),
        (None, None) => "nothing".to_owned(),
    };
    let who = |number| format!("attempt {}", id(number));
    match action {
        Action::Step(number) => format!("{}: {}", who(number), sends(number)),
        Action::LoseReply(number) => {
            format!("{}: {}; done, but the reply is lost", who(number), sends(number))
        }
        Action::LoseRequest(number) => format!("{}: {}; the request is lost", who(number), sends(number)),
        Action::Delay(number) => format!("{}: {}; not yet there, and no reply", who(number), sends(number)),
        Action::Slow(number) => format!("{}: {}; done, the reply takes its time", who(number), sends(number)),
        Action::Arrive(number) => format!("{}: the slow reply arrives", who(number)),
        Action::Crash(number) => format!("{} crashes", who(number)),
        Action::Heartbeat(number) => format!("{} renews its lease", who(number)),
        Action::DelayHeartbeat(number) => format!("{} renews its lease; not yet there", who(number)),
        Action::Reissue(number) => format!("{} sends its claim again in the middle of its run", who(number)),
        Action::Fail(number) => format!("{}: its handler fails", who(number)),
        Action::NotDone(number) => format!("{}: the call was definitely not done", who(number)),
        Action::HandOn(number) => format!("{} is told to stop", who(number)),
        Action::GiveUp(number) => format!("{} gives up an unknown outcome", who(number)),
        Action::GoPast(number) => format!("{}: its handler goes past the open effect", who(number)),
        Action::Land(place) => match &world.late[place] {
            Some(late) => format!("what was late lands: {}", sent(late)),
            None => "nothing lands".to_owned(),
        },
        Action::Tick => "the clock ticks".to_owned(),
        Action::Pick => "a sweep picks the record".to_owned(),
        Action::Sweep => "the sweep deletes what it picked".to_owned(),
        Action::Look => "the reconciler reads the record and asks the providers".to_owned(),
        Action::Resolve(decision) => format!("the reconciler decides: {}", decided(decision)),
        Action::LoseResolveReply(decision) => {
            format!("the reconciler decides: {}; done, but the reply is lost", decided(decision))
        }
        Action::DelayResolve(decision) => {
            format!("the reconciler decides: {}; not yet there", decided(decision))
        }
    }
}

fn sent(statement: &Statement) -> String {
    match *statement {
        Statement::Claim { by } => format!("claim by {by}"),
        Statement::Take { by, seen } => format!("write of the claim by {by} ({:?})", seen.how),
        Statement::Checkpoint { number, journal, rerun, .. } => {
            let rerun = match rerun {
                Reruns::Always => "runs again always",
                Reruns::Until(_) => "runs again for a while",
                Reruns::Never => "never runs again",
                Reruns::Again => "runs again as before, if it still may",
                Reruns::Keep => "runs again as before",
            };
            format!("checkpoint {number} ({}; {rerun})", marks(journal.0))
        }
        Statement::Renew { lease: 0, .. } => "hand on".to_owned(),
        Statement::Renew { .. } => "renew".to_owned(),
        Statement::Complete { by, .. } => format!("complete with answer {by}"),
        Statement::Release { .. } => "release".to_owned(),
        Statement::Resolve { decision, .. } => decided(decision),
        Statement::Call { by, effect, key, .. } => {
            format!("call of {} by {by} (provider key {key})", NAMES[usize::from(effect)])
        }
    }
}

fn decided(decision: Settled) -> String {
    match decision {
        Settled::Complete(response) => format!("completed with answer {response}"),
        Settled::Fail => "failed".to_owned(),
        Settled::Resume { number, journal } => {
            format!("resume at checkpoint {number} ({})", marks(journal.0))
        }
    }
}

fn answer(said: Said) -> String {
    match said {
        Said::Success { response, .. } => format!("200, its own answer {response}"),
        Said::Replay { response, .. } => format!("200, replay of {response}"),
        Said::InProgress => "409 in progress".to_owned(),
        Said::InDoubt => "409 in doubt".to_owned(),
        Said::Mismatch => "422 mismatch".to_owned(),
        Said::Failed => "500, nothing happened".to_owned(),
        Said::HandedOn => "503, same key".to_owned(),
        Said::Unknown => "503, outcome unknown".to_owned(),
        Said::Unavailable => "503, not done".to_owned(),
        Said::Fault => "500, a fault of ours".to_owned(),
    }
}

/// The version is told where somebody compares it; elsewhere the model forgets it, and the ticks that are over.
fn record(row: &Row, version: Option<u8>) -> String {
    let state = match row.state {
        RowState::InProgress if row.lease == 0 => "in_progress, lease over".to_owned(),
        RowState::InProgress => format!("in_progress, lease until t{}", row.lease),
        RowState::Completed(response) => format!("completed with {response}, {}", expiry(row.expires)),
        RowState::Failed => format!("failed, {}", expiry(row.expires)),
    };
    let rerun = match row.rerun {
        ALWAYS => "always".to_owned(),
        NEVER => "never".to_owned(),
        OVER => "no more".to_owned(),
        tick => format!("until t{}", tick - 1),
    };
    let version = version.map_or(String::new(), |version| format!(" version {version}"));
    format!(
        "operation {} token {}{version} of attempt {}: {state}; runs again {rerun}; checkpoint {}: {}",
        row.operation,
        row.token,
        row.attempt,
        row.checkpoint,
        marks(row.journal().0)
    )
}

fn expiry(expires: u8) -> String {
    if expires == 0 { "expired".to_owned() } else { format!("expires t{expires}") }
}

fn marks(marks: [Mark; EFFECTS]) -> String {
    let each = marks.iter().zip(NAMES).filter_map(|(mark, name)| match mark {
        Mark::Blank => None,
        Mark::Open => Some(format!("{name} open")),
        Mark::Result(result) => Some(format!("{name} = {result}")),
    });
    let noted: Vec<_> = each.collect();
    if noted.is_empty() { "nothing noted".to_owned() } else { noted.join(", ") }
}

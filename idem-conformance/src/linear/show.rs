//! Calls and answers in a line each. Ids are cut to four digits, which tell a few apart.

use idem_core::{ClaimOutcome, Decision, Fence, Record, RerunUntil, State, StoredResponse};

use crate::step::{Reply, Step};

pub(super) fn step(step: &Step) -> String {
    match step {
        Step::Claim(request) => format!("claim as {}", id(request.attempt.to_bytes())),
        Step::Renew(claim, lease) => format!("renew {} for {lease:?}", fence(claim.fence())),
        Step::Checkpoint(claim, point, rerun) => {
            format!("checkpoint {} of {}, rerun {rerun:?}", point.checkpoint(), fence(claim.fence()))
        }
        Step::Complete(claim, response, _) => {
            format!("complete {} with {}", fence(claim.fence()), text(response))
        }
        Step::Release(claim, _) => format!("release {}", fence(claim.fence())),
        Step::Resolve(seen, decision, _) => {
            let decision = match decision {
                Decision::Complete(response) => format!("complete with {}", text(response)),
                Decision::Fail => "fail".to_owned(),
                Decision::Resume(point) => format!("resume with checkpoint {}", point.checkpoint()),
            };
            format!("resolve version {} of {}: {decision}", seen.version, fence(seen.fence()))
        }
        Step::Find(_) => "find".to_owned(),
        Step::Sweep(_) => "sweep".to_owned(),
    }
}

pub(super) fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Claim(Ok(ClaimOutcome::Claimed(claim))) => {
            format!(
                "claimed {} ({:?}), checkpoint {}",
                fence(claim.fence()),
                claim.origin(),
                claim.checkpoint()
            )
        }
        Reply::Claim(Ok(ClaimOutcome::Completed(response))) => format!("completed with {}", text(response)),
        Reply::Claim(Ok(other)) => format!("{other:?}"),
        Reply::Write(Ok(())) => "ok".to_owned(),
        Reply::Swept(Ok(count)) => format!("{count} swept"),
        Reply::Found(Ok(found)) => record(found.as_deref()),
        Reply::Claim(Err(kind))
        | Reply::Write(Err(kind))
        | Reply::Swept(Err(kind))
        | Reply::Found(Err(kind)) => kind.name().to_owned(),
    }
}

pub(super) fn record(record: Option<&Record>) -> String {
    let Some(record) = record else { return "no record".to_owned() };
    let answer = match &record.state {
        State::Completed { response, .. } => format!(" with {}", text(response)),
        State::InProgress | State::Failed { .. } => String::new(),
    };
    let rerun = match record.rerun_until {
        RerunUntil::Always => "",
        RerunUntil::At(_) => ", may run again until some time",
        RerunUntil::Never => ", may not run again",
    };
    format!(
        "{}{answer}: {} by {}, version {}, checkpoint {}{rerun}",
        record.state.name(),
        fence(record.fence()),
        id(record.attempt.to_bytes()),
        record.version,
        record.checkpoint,
    )
}

fn fence(fence: Fence) -> String {
    format!("{}#{}", id(fence.operation.to_bytes()), fence.token)
}

fn id(bytes: [u8; 16]) -> String {
    // The last bytes, since those that stand for an id that nobody was shown differ there.
    format!("{:02x}{:02x}", bytes[14], bytes[15])
}

/// What the callers wrote into their answers says whose it is.
fn text(response: &StoredResponse) -> String {
    format!("{:?}", String::from_utf8_lossy(response.body()))
}

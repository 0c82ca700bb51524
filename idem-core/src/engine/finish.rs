//! The end of a run: judged, carried out, and told to its caller.

use std::sync::Arc;

use super::{Answer, RunError, task::LOST};
use crate::{
    Error, ErrorKind, StoredResponse, event,
    ledger::{Kept, Ledger, Returned, Standing, Verdict, is_try_again, judge},
    run::Run,
};

/// What a caller is told of a run that committed no answer depends on these.
struct Judged {
    why: Why,
    recorded: bool,
}

/// Why nothing was committed, the strongest reason first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// An effect is open.
    InDoubt,
    /// A call, or the answer, was refused.
    Refused,
    /// The transaction that was to end the operation was rolled back.
    RolledBack,
    /// The work said that it may be tried again, or nothing.
    Unended,
}

/// Ends a run whose work is over, and says what its caller is told.
pub(super) async fn finish<E>(run: &Arc<Run>, returned: Returned<E>) -> Result<Answer, RunError<E>> {
    let judged = loop {
        // The work may have been dropped in the middle of a commit, or have left one to another task.
        run.committed().await;
        if !run.policy.is_opaque()
            && run.journal().is_unsettled()
            && let Ok(_nobody_else_is) = run.calling()
        {
            // Where it cannot be settled, what may stand is what is judged.
            let _ = run.tidy().await;
        }
        if let Some(judged) = put_on_its_way(run, &returned) {
            break judged;
        }
    };
    let left = matches!(*run.ledger(), Ledger::Left);
    if left {
        run.leave().await;
    }
    let failed = run.end().await.err();
    let ledger = run.ledger().clone();
    match ledger {
        Ledger::Completed(kept) => Ok(executed(run, kept, &returned)),
        Ledger::Lost => Ok(LOST),
        Ledger::Unsettled => {
            let unknown = Error::new(ErrorKind::Unknown, "the end of the operation could not be settled");
            Err(match failed {
                Some(error) => unknown.with_source(error),
                None => unknown,
            }
            .into())
        }
        Ledger::Corrupt => Err(Error::new(ErrorKind::Corrupt, "the record cannot be trusted").into()),
        Ledger::Refused => {
            Err(failed.unwrap_or_else(|| Error::new(ErrorKind::Invalid, "the end was refused")).into())
        }
        Ledger::Released | Ledger::Left => unended(&judged, returned),
        Ledger::Running
        | Ledger::InTransaction
        | Ledger::Committing
        | Ledger::RolledBack
        | Ledger::Completing(_)
        | Ledger::Releasing
        | Ledger::HandingOn => Err(Error::new(ErrorKind::Unknown, "the run ended on its way").into()),
    }
}

/// Puts the run on the way to its end, unless the work has; `None` while a commit is under way.
fn put_on_its_way<E>(run: &Run, returned: &Returned<E>) -> Option<Judged> {
    let journal = run.journal();
    let mut ledger = run.ledger();
    let unsendable = matches!(returned, Returned::Answered(answer) if answer.check_headers().is_err());
    let open = matches!(*ledger, Ledger::InTransaction);
    let rolled_back = matches!(*ledger, Ledger::RolledBack);
    let refused = unsendable || open || journal.is_behind() || matches!(*ledger, Ledger::Refused);
    let standing = Standing {
        opaque: run.policy.is_opaque(),
        refused: refused || rolled_back,
        open: journal.open(),
        recorded: !journal.is_blank(),
    };
    match *ledger {
        Ledger::Committing => return None,
        Ledger::Running | Ledger::Refused | Ledger::RolledBack => {
            let end = match judge(standing, returned) {
                Verdict::Complete => completing(run, returned),
                Verdict::Release => Ledger::Releasing,
                Verdict::HandOn => Ledger::HandingOn,
                Verdict::Leave => Ledger::Left,
            };
            // The operation was moved into a task that still has an effect under way: nobody else may have the key yet.
            let busy = run.is_calling() && !matches!(end, Ledger::Completing(_));
            *ledger = if busy { Ledger::Left } else { end };
        }
        // The operation was moved into a task that has a transaction open, which can commit no more.
        Ledger::InTransaction => *ledger = Ledger::Left,
        Ledger::Completing(_)
        | Ledger::Completed(_)
        | Ledger::Releasing
        | Ledger::Released
        | Ledger::HandingOn
        | Ledger::Left
        | Ledger::Lost
        | Ledger::Unsettled
        | Ledger::Corrupt => {}
    }
    let why = match standing.open {
        Some(_) if !standing.opaque => Why::InDoubt,
        Some(_) | None if refused => Why::Refused,
        Some(_) | None if rolled_back => Why::RolledBack,
        Some(_) | None => Why::Unended,
    };
    Some(Judged { why, recorded: standing.recorded })
}

/// What the caller of a run is told that was released, handed on or left.
fn unended<E>(judged: &Judged, returned: Returned<E>) -> Result<Answer, RunError<E>> {
    let told = |kind, message: &'static str| Err(Error::new(kind, message).into());
    let undone = "the transaction that was to end the operation was rolled back";
    match (returned, judged.why) {
        (Returned::Failed(error), _) => Err(RunError::Work(error)),
        (_, Why::InDoubt) => told(
            ErrorKind::EffectUnknown,
            "an effect may have been done, and the work ended nothing; retry with the same key",
        ),
        (Returned::Aborted, _) if judged.recorded => told(
            ErrorKind::Unknown,
            "the engine stopped this run, of which something is recorded; retry with the same key",
        ),
        (Returned::Aborted, _) => {
            told(ErrorKind::Unavailable, "the engine stopped this run; retry with the same key")
        }
        (Returned::Panicked, _) => Err(RunError::Panicked),
        (Returned::Answered(_) | Returned::NotKept(_) | Returned::Ended, Why::Refused) => {
            told(ErrorKind::Invalid, "the work made a call, or gave an answer, that was refused")
        }
        (Returned::Answered(answer), Why::RolledBack) if !is_try_again(answer.status()) => {
            told(ErrorKind::RolledBack, undone)
        }
        (Returned::NotKept(status), Why::RolledBack) if !is_try_again(status) => {
            told(ErrorKind::RolledBack, undone)
        }
        (Returned::Answered(_) | Returned::NotKept(_) | Returned::Ended, Why::RolledBack | Why::Unended) => {
            Ok(Answer::Released)
        }
    }
}

fn completing<E>(run: &Run, returned: &Returned<E>) -> Ledger {
    Ledger::Completing(match returned {
        Returned::Answered(answer) => run.kept(answer.clone()),
        Returned::NotKept(status) => Kept { stored: StoredResponse::not_kept(*status), sent: None },
        Returned::Ended | Returned::Failed(_) | Returned::Panicked | Returned::Aborted => {
            unreachable!("only an answer is judged as an end")
        }
    })
}

/// The committed answer is what is sent, whatever the work returned after it.
fn executed<E>(run: &Run, kept: Kept, returned: &Returned<E>) -> Answer {
    let Some(sent) = kept.sent else { return Answer::NotKept };
    let diverged = match returned {
        Returned::Answered(answer) => answer.status() != sent.status() || answer.body() != sent.body(),
        Returned::Failed(_) | Returned::Panicked => true,
        Returned::NotKept(_) | Returned::Ended | Returned::Aborted => false,
    };
    if diverged {
        event::diverged(&run.claim);
    }
    Answer::Executed(sent)
}

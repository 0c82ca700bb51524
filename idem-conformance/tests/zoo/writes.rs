//! Every write after the claim once more, with a switch at each rule.

use std::time::Duration;

use idem_core::{
    AttemptId, Claim, Command, Decision, MAX_SPAN, Record, RecoveryPoint, Rerun, RerunUntil, State,
    StoreError, StoreErrorKind, StoredResponse, Transition, state,
};

use crate::{
    bytes,
    defect::Defect,
    rules::{Now, Rules},
};

/// The record to write, if any.
type Written = Result<Option<Record>, StoreError>;

impl Rules {
    pub(crate) fn write(self, row: Option<&Record>, command: &Command<'_>, now: Now) -> Transition<()> {
        let written = match *command {
            Command::Renew(claim, lease) => self.renew(row, claim, lease, now),
            Command::Checkpoint(claim, point, rerun) => self.checkpoint(row, claim, point, rerun, now),
            Command::Complete(claim, response, retention) => {
                self.complete(row, claim, response, retention, now)
            }
            Command::Release(claim, retention) => self.release(row, claim, retention, now),
            Command::Resolve(seen, decision, retention, fresh) => {
                self.resolve(row, seen, decision, retention, fresh, now)
            }
        };
        match written {
            Ok(write) => Transition { write, answer: Ok(()) },
            Err(error) => Transition { write: None, answer: Err(error) },
        }
    }

    /// The record, if the claim's fence is its current one or `anybody` may write.
    fn fenced<'a>(
        self,
        row: Option<&'a Record>,
        claim: &Claim,
        anybody: Defect,
    ) -> Result<&'a Record, StoreError> {
        row.filter(|row| row.fence() == claim.fence() || self.wrong(anybody)).ok_or_else(lost)
    }

    /// The span, if it is one that a store takes.
    fn span(
        self,
        span: Duration,
        clamps: Defect,
        check: impl FnOnce(Duration) -> Result<(), StoreError>,
    ) -> Result<Duration, StoreError> {
        if self.wrong(clamps) {
            return Ok(span.min(MAX_SPAN));
        }
        check(span).map(|()| span)
    }

    fn renew(self, row: Option<&Record>, claim: &Claim, lease: Duration, now: Now) -> Written {
        let lease = self.span(lease, Defect::RenewClampsSpans, state::check_renewal)?;
        let row = self.fenced(row, claim, Defect::RenewWithoutFence)?;
        let ended = row.state != State::InProgress && !self.wrong(Defect::RenewAfterEnd);
        let too_late = now.store >= row.lease_until && self.wrong(Defect::RenewNeedsLiveLease);
        if ended || too_late {
            return Err(lost());
        }
        Ok(Some(self.renewed(row, lease, now)))
    }

    fn checkpoint(
        self,
        row: Option<&Record>,
        claim: &Claim,
        point: &RecoveryPoint,
        rerun: Rerun,
        now: Now,
    ) -> Written {
        let rerun = match rerun {
            Rerun::Until(window) => {
                Rerun::Until(self.span(window, Defect::CheckpointClampsSpans, |window| {
                    state::check_span("checkpoint", "window", window)
                })?)
            }
            rerun => rerun,
        };
        let row = self.fenced(row, claim, Defect::CheckpointWithoutFence)?;
        if row.state != State::InProgress && !self.wrong(Defect::CheckpointAfterEnd) {
            return Err(lost());
        }
        let itself = row.point.as_ref() == Some(point);
        let past = rerun == Rerun::Again && !row.rerun_until.allows(now.store);
        let forgiven =
            self.wrong(Defect::AgainPastItsTime) || (itself && self.wrong(Defect::AgainPastItsTimeForItself));
        if past && !forgiven {
            return Err(StoreError::new(StoreErrorKind::TooLate, "checkpoint"));
        }
        if row.checkpoint >= point.checkpoint() && !self.wrong(Defect::CheckpointUnnumbered) {
            let fine = match row.checkpoint == point.checkpoint() {
                true if itself => !self.wrong(Defect::CheckpointSameIsRefused),
                true if self.wrong(Defect::CheckpointIgnoresName) => {
                    row.point.as_ref().is_some_and(|last| last.data() == point.data())
                }
                true => self.wrong(Defect::CheckpointOtherIsFine),
                false => self.wrong(Defect::CheckpointLowerIsFine),
            };
            return if fine { Ok(None) } else { Err(invalid("checkpoint")) };
        }
        if point.checkpoint() > row.checkpoint + 1 && self.wrong(Defect::CheckpointRefusesSkips) {
            return Err(invalid("checkpoint"));
        }
        let mut lease_until = row.lease_until;
        if self.wrong(Defect::CheckpointRenews) {
            lease_until += now.store.duration_since(row.locked_at).unwrap_or_default();
        }
        let point = if self.wrong(Defect::PointAsText) { bytes::point_as_text(point) } else { point.clone() };
        Ok(Some(Record {
            checkpoint: point.checkpoint(),
            point: Some(point),
            rerun_until: self.rerun_until(row.rerun_until, rerun, now),
            lease_until,
            version: row.version + 1,
            request: row.request.clone().filter(|_| !self.wrong(Defect::RequestForgottenByCheckpoint)),
            ..row.clone()
        }))
    }

    fn rerun_until(self, old: RerunUntil, rerun: Rerun, now: Now) -> RerunUntil {
        match rerun {
            Rerun::Always if self.wrong(Defect::AlwaysNeverRaises) => old,
            Rerun::Keep if self.wrong(Defect::KeepRaises) => RerunUntil::Always,
            Rerun::Again if self.wrong(Defect::AgainPushesTime) => match old {
                RerunUntil::At(end) => RerunUntil::At(end.max(now.store + Duration::from_hours(1))),
                RerunUntil::Never | RerunUntil::Always => old,
            },
            Rerun::Always => RerunUntil::Always,
            Rerun::Never => RerunUntil::Never,
            Rerun::Again | Rerun::Keep => old,
            Rerun::Until(window) => {
                let end = RerunUntil::At(now.store + window);
                match old {
                    RerunUntil::At(_) if self.wrong(Defect::UntilTakesLater) => old.max(end),
                    RerunUntil::Never if self.wrong(Defect::UntilSoftensNever) => end,
                    RerunUntil::At(_) | RerunUntil::Never | RerunUntil::Always => old.min(end),
                }
            }
        }
    }

    fn complete(
        self,
        row: Option<&Record>,
        claim: &Claim,
        response: &StoredResponse,
        retention: Duration,
        now: Now,
    ) -> Written {
        let retention = self.span(retention, Defect::EndClampsSpans, |retention| {
            state::check_span("complete", "retention", retention)
        })?;
        let row = row.ok_or_else(lost)?;
        let same_token = row.token == claim.fence().token && self.wrong(Defect::CompleteComparesOnlyToken);
        if row.fence() != claim.fence() && !same_token && !self.wrong(Defect::CompleteWithoutFence) {
            let taken =
                matches!(row.state, State::Completed { .. }) && self.wrong(Defect::CompletedByOtherIsMine);
            return if taken { Ok(None) } else { Err(lost()) };
        }
        let open = row.state == State::InProgress && row.rerun_until != RerunUntil::Always;
        if open && self.wrong(Defect::CompleteRefusesOpenEffect) {
            return Err(invalid("complete"));
        }
        let write = match row.state {
            State::InProgress => now.store < row.lease_until || !self.wrong(Defect::CompleteNeedsLiveLease),
            State::Completed { .. } if self.wrong(Defect::CompleteOverwrites) => true,
            State::Completed { .. } if self.wrong(Defect::CompleteNotRepeatable) => false,
            State::Completed { .. } => return Ok(None),
            State::Failed { .. } => self.wrong(Defect::CompleteAfterRelease),
        };
        if !write {
            return Err(lost());
        }
        let response = bytes::response(self.0, response);
        Ok(Some(self.ended(row, State::Completed { response, ended_at: now.store }, retention, now)))
    }

    fn release(self, row: Option<&Record>, claim: &Claim, retention: Duration, now: Now) -> Written {
        let retention = self.span(retention, Defect::EndClampsSpans, |retention| {
            state::check_span("release", "retention", retention)
        })?;
        let row = self.fenced(row, claim, Defect::ReleaseWithoutFence)?;
        if row.rerun_until != RerunUntil::Always && self.wrong(Defect::ReleaseLooksAtEffectsFirst) {
            return Err(invalid("release"));
        }
        match row.state {
            State::InProgress
                if row.rerun_until != RerunUntil::Always && !self.wrong(Defect::ReleaseWithOpenEffect) =>
            {
                return Err(invalid("release"));
            }
            State::InProgress
                if now.store >= row.lease_until && self.wrong(Defect::ReleaseNeedsLiveLease) =>
            {
                return Err(lost());
            }
            State::Failed { .. } if !self.wrong(Defect::ReleaseNotRepeatable) => return Ok(None),
            State::Completed { .. } if !self.wrong(Defect::ReleaseOverwritesAnswer) => return Err(lost()),
            State::Failed { .. } => return Err(lost()),
            State::InProgress | State::Completed { .. } => {}
        }
        let mut record = self.ended(row, State::Failed { ended_at: now.store }, retention, now);
        if self.wrong(Defect::ReleaseForgetsPoint) {
            record.point = None;
        }
        Ok(Some(record))
    }

    fn ended(self, row: &Record, state: State, retention: Duration, now: Now) -> Record {
        let expires_at = match self.0 {
            Some(Defect::EndKeepsExpiry) => row.expires_at,
            Some(Defect::EndShrinksExpiry) => now.store + retention,
            _ => row.expires_at.max(now.store + retention),
        };
        let dropped = match state {
            State::Completed { .. } => !self.wrong(Defect::RequestOutlivesAnswer),
            State::Failed { .. } => self.wrong(Defect::RequestForgottenByRelease),
            State::InProgress => false,
        };
        let request = row.request.clone().filter(|_| !dropped);
        Record { state, version: row.version + 1, expires_at, request, ..row.clone() }
    }

    fn resolve(
        self,
        row: Option<&Record>,
        seen: &Record,
        decision: &Decision,
        retention: Duration,
        fresh: AttemptId,
        now: Now,
    ) -> Written {
        if self.wrong(Defect::ResolveResumesAnywhere) {
            state::check_span("resolve", "retention", retention)?;
        } else {
            state::check_resolve(seen, decision, retention)?;
        }
        let row = row.filter(|row| row.operation == seen.operation).ok_or_else(lost)?;
        let next = row.version == seen.version + 1
            && (row.token == seen.token + 1 || self.wrong(Defect::ResolveTakesEndsForItself));
        let again = next
            && (holds(row, decision) || self.wrong(Defect::ResolveAnyDecisionAgain))
            && !self.wrong(Defect::ResolveNotRepeatable);
        if again {
            return Ok(None);
        }
        let moved = row.version != seen.version && !self.wrong(Defect::ResolveWithoutVersion);
        let settled = !row.is_in_doubt(now.store) && !self.wrong(Defect::ResolveAnything);
        if moved || settled {
            return Err(lost());
        }
        let mut record = match decision {
            Decision::Complete(response) => {
                let state = State::Completed { response: response.clone(), ended_at: now.store };
                self.ended(row, state, retention, now)
            }
            Decision::Fail => self.ended(row, State::Failed { ended_at: now.store }, retention, now),
            Decision::Resume(point) => Record {
                checkpoint: point.checkpoint(),
                point: Some(point.clone()),
                version: row.version + 1,
                expires_at: match self.0 {
                    Some(Defect::ResolveResumeExtends) => row.expires_at.max(now.store + retention),
                    _ => row.expires_at,
                },
                ..row.clone()
            },
        };
        if *decision == Decision::Fail {
            record.point = row.point.clone().filter(|_| self.wrong(Defect::ResolveFailKeepsPoint));
            record.checkpoint *= u64::from(!self.wrong(Defect::ResolveFailFreesNumbers));
        }
        if self.wrong(Defect::RequestForgottenByDecision) {
            record.request = None;
        }
        record.token += u64::from(!self.wrong(Defect::ResolveKeepsToken));
        if !self.wrong(Defect::ResolveKeepsAttempt) {
            record.attempt = fresh;
        }
        if !self.wrong(Defect::ResolveKeepsMark) {
            record.rerun_until = RerunUntil::Always;
        }
        if self.wrong(Defect::ResolveForgetsRetention) {
            record.expires_at = row.expires_at;
        }
        Ok(Some(record))
    }
}

/// Whether the record holds exactly this decision.
fn holds(row: &Record, decision: &Decision) -> bool {
    match decision {
        Decision::Complete(decided) => {
            matches!(&row.state, State::Completed { response, .. } if response == decided)
        }
        Decision::Fail => matches!(row.state, State::Failed { .. }) && row.point.is_none(),
        Decision::Resume(point) => row.state == State::InProgress && row.point.as_ref() == Some(point),
    }
}

fn lost() -> StoreError {
    StoreError::new(StoreErrorKind::ClaimLost, "write")
}

fn invalid(call: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, call)
}

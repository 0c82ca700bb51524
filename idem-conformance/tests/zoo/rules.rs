//! The claim table once more, row by row, with a switch at each rule.

use std::time::{Duration, SystemTime};

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Fingerprint, Fingerprints, MAX_SPAN, MIN_LEASE, OperationId, Origin,
    Record, RerunUntil, Sameness, State, StoreError, StoreErrorKind, StoredRequest, Transition, state,
};

use crate::{bytes, defect::Defect};

/// What the two clocks show: the store's, which judges, and the one of a caller whose time does not pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) store: SystemTime,
    pub(crate) caller: SystemTime,
}

/// The rules, with at most one of them wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules(pub(crate) Option<Defect>);

impl Rules {
    pub(crate) fn wrong(self, defect: Defect) -> bool {
        self.0 == Some(defect)
    }

    pub(crate) fn claim(
        self,
        row: Option<&Record>,
        request: &ClaimRequest,
        now: Now,
    ) -> Transition<ClaimOutcome> {
        if let Err(error) = state::check_claim(request) {
            if !self.wrong(Defect::ClaimClampsSpans) {
                return Transition { write: None, answer: Err(error) };
            }
            let mut clamped = request.again();
            clamped.attempt = request.attempt;
            clamped.lease = request.lease.clamp(MIN_LEASE, MAX_SPAN);
            clamped.retention = request.retention.min(MAX_SPAN);
            return self.claim(row, &clamped, now);
        }
        let Some(row) = row else { return claimed(self.first(None, request, now), Origin::New) };
        if self.expired(row, now) {
            return claimed(self.first(Some(row), request, now), Origin::Expired);
        }
        match self.compare(row, request, now) {
            Sameness::Same => {}
            Sameness::Different if self.wrong(Defect::MismatchExtendsLease) => {
                return Transition {
                    write: Some(self.renewed(row, request.lease, now)),
                    answer: Ok(ClaimOutcome::Mismatch),
                };
            }
            Sameness::Different => return answered(ClaimOutcome::Mismatch),
            Sameness::NotComparable => {
                return Transition {
                    write: None,
                    answer: Err(StoreError::new(StoreErrorKind::Unavailable, "claim")),
                };
            }
        }
        let mine = row.attempt == request.attempt && !self.wrong(Defect::OwnClaimConflicts);
        match &row.state {
            State::InProgress if mine => self.own(row, request, now),
            State::Completed { response, .. } if self.wrong(Defect::ReplayExtends) => Transition {
                write: Some(Record {
                    expires_at: row.expires_at.max(now.store + request.retention),
                    ..row.clone()
                }),
                answer: Ok(ClaimOutcome::Completed(response.clone())),
            },
            State::Completed { response, .. } => answered(ClaimOutcome::Completed(response.clone())),
            State::InProgress
                if self.wrong(Defect::RequestOfTheWaiting) && !self.stuck(row, request, now) =>
            {
                Transition {
                    write: Some(Record { request: request.request.clone(), ..row.clone() }),
                    answer: Ok(ClaimOutcome::InProgress { retry_after: self.retry_after(row, request, now) }),
                }
            }
            State::InProgress if !self.stuck(row, request, now) => {
                answered(ClaimOutcome::InProgress { retry_after: self.retry_after(row, request, now) })
            }
            State::Failed { .. } if self.wrong(Defect::RetryWaitsForLease) && now.store < row.lease_until => {
                answered(ClaimOutcome::InProgress { retry_after: self.retry_after(row, request, now) })
            }
            State::Failed { .. } => claimed(self.retried(row, request, now), Origin::Retried),
            State::InProgress if self.may_run_again(row.rerun_until, now) => {
                claimed(self.taken_over(row, request, now), Origin::TakenOver)
            }
            State::InProgress => answered(ClaimOutcome::InDoubt { since: self.in_doubt_since(row) }),
        }
    }

    fn first(self, old: Option<&Record>, request: &ClaimRequest, now: Now) -> Record {
        let kept_operation = old.filter(|_| self.wrong(Defect::WipeKeepsOperation)).map(|old| old.operation);
        let operation = match kept_operation {
            Some(operation) => operation,
            None if self.wrong(Defect::AttemptIsOperation) => {
                OperationId::from_bytes(request.attempt.to_bytes())
            }
            None => OperationId::random(),
        };
        let kept = old.filter(|_| self.wrong(Defect::WipeKeepsPoint));
        Record {
            id: request.id.clone(),
            operation,
            attempt: request.attempt,
            token: old.filter(|_| self.wrong(Defect::WipeKeepsToken)).map_or(1, |old| old.token),
            fingerprint: self.kept_fingerprint(request.fingerprints.current()),
            state: State::InProgress,
            version: match old {
                Some(old) if !self.wrong(Defect::WipeRestartsVersion) => old.version + 1,
                _ => 1,
            },
            checkpoint: kept.map_or(0, |old| old.checkpoint),
            locked_at: now.store,
            lease_until: self.lease_clock(now) + request.lease,
            rerun_until: RerunUntil::Always,
            point: kept.and_then(|old| old.point.clone()),
            request: self.kept_request(old, request),
            created_at: now.store,
            expires_at: now.store + request.lease + request.retention,
        }
    }

    fn kept_request(self, old: Option<&Record>, request: &ClaimRequest) -> Option<StoredRequest> {
        let asked = request.request.as_ref();
        match self.0 {
            Some(Defect::RequestForgotten) => None,
            Some(Defect::RequestForgottenByWipe) if old.is_some() => None,
            Some(Defect::RequestOutlivesWipe) => old.and_then(|old| old.request.as_ref()).or(asked).cloned(),
            _ => asked.map(|asked| bytes::request(self.0, asked)),
        }
    }

    /// A further owner of the same operation.
    fn owned(self, row: &Record, request: &ClaimRequest, now: Now) -> Record {
        Record {
            attempt: request.attempt,
            token: row.token + 1,
            state: State::InProgress,
            version: row.version + 1,
            locked_at: now.store,
            lease_until: self.lease_clock(now) + request.lease,
            ..row.clone()
        }
    }

    fn retried(self, row: &Record, request: &ClaimRequest, now: Now) -> Record {
        let mut record = self.owned(row, request, now);
        if self.wrong(Defect::RequestOfTheRetry) {
            record.request.clone_from(&request.request);
        }
        if self.wrong(Defect::RetryKeepsToken) {
            record.token = row.token;
        }
        if self.wrong(Defect::RetryForgetsPoint) {
            record.point = None;
        }
        record
    }

    fn taken_over(self, row: &Record, request: &ClaimRequest, now: Now) -> Record {
        let mut record = self.owned(row, request, now);
        let is_missing = record.request.is_none() && self.wrong(Defect::RequestOfTheTakerIfNone);
        if is_missing || self.wrong(Defect::RequestOfTheTaker) {
            record.request.clone_from(&request.request);
        }
        if self.wrong(Defect::TakeoverKeepsToken) {
            record.token = row.token;
        }
        if self.wrong(Defect::TakeoverStartsAnew) {
            (record.operation, record.token) = (OperationId::random(), 1);
        }
        if self.wrong(Defect::TakeoverRewritesFingerprint) {
            record.fingerprint = request.fingerprints.current();
        }
        if self.wrong(Defect::TakeoverForgetsPoint) {
            record.point = None;
        }
        if self.wrong(Defect::TakeoverForgetsMark) {
            record.rerun_until = RerunUntil::Always;
        }
        if self.wrong(Defect::TakeoverMovesExpiry) {
            record.expires_at = now.store + request.lease + request.retention;
        }
        if self.wrong(Defect::CheckpointNumbersPerOwner) {
            record.checkpoint = 0;
        }
        record
    }

    /// The claim of a caller who already has it.
    fn own(self, row: &Record, request: &ClaimRequest, now: Now) -> Transition<ClaimOutcome> {
        if self.wrong(Defect::OwnClaimRaisesToken) && now.store >= row.lease_until {
            return claimed(self.owned(row, request, now), Origin::TakenOver);
        }
        let mut record = self.renewed(row, request.lease, now);
        if self.wrong(Defect::OwnClaimShortensLease) {
            record.lease_until = now.store + request.lease;
        }
        let mut step = claimed(record, Origin::Reissued);
        if self.wrong(Defect::OwnClaimNotRenewed) {
            step.write = None;
        }
        if self.wrong(Defect::OwnClaimForgetsPoint) {
            let claim = Claim::new(row.id.clone(), row.fence(), row.fingerprint, Origin::Reissued);
            step.answer = Ok(ClaimOutcome::Claimed(claim));
        }
        step
    }

    pub(crate) fn renewed(self, row: &Record, lease: Duration, now: Now) -> Record {
        let until = self.lease_clock(now) + lease;
        let lease_until = match lease.is_zero() {
            true if self.wrong(Defect::RenewZeroIgnored) => row.lease_until,
            true => now.store,
            false if self.wrong(Defect::RenewShortens) => until,
            false => row.lease_until.max(until),
        };
        let version = row.version + u64::from(!self.wrong(Defect::RenewNotCounted));
        let expires_at = if self.wrong(Defect::RenewMovesExpiry) {
            row.expires_at + (lease_until.duration_since(row.lease_until).unwrap_or_default())
        } else {
            row.expires_at
        };
        Record { lease_until, version, expires_at, ..row.clone() }
    }

    fn compare(self, row: &Record, request: &ClaimRequest, now: Now) -> Sameness {
        let stuck = self.stuck(row, request, now);
        let in_progress = row.state == State::InProgress;
        let may_run = self.may_run_again(row.rerun_until, now);
        let blind = match self.0 {
            Some(Defect::TakeoverIgnoresFingerprint) => in_progress && stuck && may_run,
            Some(Defect::DoubtIgnoresFingerprint) => in_progress && stuck && !may_run,
            Some(Defect::LiveIgnoresFingerprint) => in_progress && !stuck,
            Some(Defect::OwnerSkipsFingerprint) => in_progress && row.attempt == request.attempt,
            Some(Defect::RetryIgnoresFingerprint) => matches!(row.state, State::Failed { .. }),
            Some(Defect::ReplayIgnoresFingerprint) => matches!(row.state, State::Completed { .. }),
            _ => false,
        };
        let asked = match self.0 {
            Some(Defect::OlderVersionsForgotten) => Fingerprints::new(request.fingerprints.current()),
            _ => request.fingerprints.iter().map(|one| self.kept_fingerprint(one)).fold(
                Fingerprints::new(self.kept_fingerprint(request.fingerprints.current())),
                Fingerprints::accept,
            ),
        };
        match asked.compare(row.fingerprint) {
            Sameness::Different if blind => Sameness::Same,
            Sameness::NotComparable if self.wrong(Defect::UnknownVersionMismatches) => Sameness::Different,
            Sameness::NotComparable if self.wrong(Defect::UnknownVersionAccepted) => Sameness::Same,
            sameness => sameness,
        }
    }

    fn kept_fingerprint(self, fingerprint: Fingerprint) -> Fingerprint {
        if self.wrong(Defect::FingerprintCut) { bytes::halved(fingerprint) } else { fingerprint }
    }

    fn lease_clock(self, now: Now) -> SystemTime {
        if self.wrong(Defect::LeaseWrittenByAppClock) { now.caller } else { now.store }
    }

    pub(crate) fn expired(self, row: &Record, now: Now) -> bool {
        let over = match self.0 {
            Some(Defect::ExpiryBoundaryOpen) => now.store > row.expires_at,
            Some(Defect::ExpiryByAppClock) => now.caller >= row.expires_at,
            Some(Defect::ExpiredIsReplayed) => false,
            _ => now.store >= row.expires_at,
        };
        over && (row.state.ended_at().is_some() || self.wrong(Defect::InProgressExpires))
    }

    fn stuck(self, row: &Record, request: &ClaimRequest, now: Now) -> bool {
        match self.0 {
            Some(Defect::LeaseBoundaryOpen) => now.store > row.lease_until,
            Some(Defect::LeaseByAppClock) => now.caller >= row.lease_until,
            Some(Defect::LeaseByTakersSpan) => now.store >= row.locked_at + request.lease,
            Some(Defect::NeverTakenOver) => false,
            Some(Defect::TakenOverWhileLive) => true,
            _ => now.store >= row.lease_until,
        }
    }

    fn may_run_again(self, until: RerunUntil, now: Now) -> bool {
        match (self.0, until) {
            (Some(Defect::DoubtIsRunAgain), RerunUntil::Never)
            | (Some(Defect::RerunNeverEnds), RerunUntil::At(_)) => true,
            (Some(Defect::RerunBoundaryClosed), RerunUntil::At(end)) => now.store <= end,
            (_, until) => until.allows(now.store),
        }
    }

    fn in_doubt_since(self, row: &Record) -> SystemTime {
        if self.wrong(Defect::DoubtSinceLease) { row.lease_until } else { row.in_doubt_since() }
    }

    fn retry_after(self, row: &Record, request: &ClaimRequest, now: Now) -> Duration {
        match self.0 {
            Some(Defect::RetryAfterZero) => Duration::ZERO,
            Some(Defect::RetryAfterWholeLease) => request.lease,
            _ => row.lease_until.duration_since(now.store).unwrap_or_default(),
        }
    }
}

fn answered(outcome: ClaimOutcome) -> Transition<ClaimOutcome> {
    Transition { write: None, answer: Ok(outcome) }
}

fn claimed(record: Record, origin: Origin) -> Transition<ClaimOutcome> {
    let claim = claim_of(&record, origin);
    Transition { write: Some(record), answer: Ok(ClaimOutcome::Claimed(claim)) }
}

pub(crate) fn claim_of(record: &Record, origin: Origin) -> Claim {
    Claim::new(record.id.clone(), record.fence(), record.fingerprint, origin)
        .resumed_at(record.checkpoint, record.point.clone())
}

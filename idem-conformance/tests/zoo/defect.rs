//! The wrong rules: what each store does, and the cases that have to notice.

macro_rules! defects {
    ($($name:ident $wrong:literal [$($killer:ident)+])+) => {
        /// The one rule that a store gets wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Defect {
            $(#[doc = $wrong] $name,)+
        }

        impl Defect {
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)+];

            /// What it does wrong.
            pub(crate) const fn wrong(self) -> &'static str {
                match self {
                    $(Self::$name => $wrong,)+
                }
            }

            /// Whether it shows only in two calls at once, in one that is dropped, in a crowd, in a notice, or in points that differ by
            /// their names alone: not in a walk.
            pub(crate) const fn escapes_a_walk(self) -> bool {
                matches!(
                    self,
                    Self::CheckThenInsert
                        | Self::ExpiredWithoutCompare
                        | Self::RetryWithoutCompare
                        | Self::TakeoverWithoutCompare
                        | Self::TakeoverComparesOnlyToken
                        | Self::TakeoverSkipsLease
                        | Self::TakeoverSkipsMark
                        | Self::TakeoverSkipsState
                        | Self::TakeoverHandsOverOldRead
                        | Self::RenewWithoutCompare
                        | Self::CheckpointWithoutCompare
                        | Self::CheckpointIgnoresName
                        | Self::CompleteWithoutCompare
                        | Self::ReleaseWithoutCompare
                        | Self::ResolveWithoutCompare
                        | Self::SweepPicksThenDeletes
                        | Self::SweepCountsPicks
                        | Self::WedgedByDrop
                        | Self::WaitersHoldConnections
                        | Self::NoticeDeletes
                )
            }

            /// Whether two calls at once show it, whatever else they were to do.
            pub(crate) const fn shows_in_histories(self) -> bool {
                self.escapes_a_walk() && !matches!(self, Self::WedgedByDrop | Self::WaitersHoldConnections | Self::NoticeDeletes | Self::CheckpointIgnoresName)
            }

            /// The cases whose promise it breaks; each has to reject it.
            pub(crate) const fn killers(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &[$(stringify!($killer)),+],)+
                }
            }
        }
    };
}

defects! {
    // Names and bytes.
    ScopeNotInKey "finds records by the key alone" [claim_keeps_scopes_apart]
    KeyFoldsCase "compares keys without regard to case" [claim_compares_keys_byte_for_byte]
    KeyTrimmed "trims keys" [claim_compares_keys_byte_for_byte]
    ScopeAndKeyJoined "joins scope and key without a separator" [claim_compares_keys_byte_for_byte]
    KeyCut "keeps 64 characters of a key" [claim_takes_the_longest_names]
    HeadersInMap "keeps headers in a map" [replay_keeps_headers_as_they_were]
    HeadersAsText "keeps header values as UTF-8" [replay_keeps_headers_as_they_were]
    BodyAsText "keeps bodies as UTF-8" [replay_keeps_every_byte_of_the_body]
    BodyNullIfEmpty "keeps an empty body as null" [replay_tells_no_body_from_an_empty_one]
    StatusForgotten "replays everything as 200" [replay_keeps_the_status]
    PointAsText "keeps the data of a recovery point as UTF-8" [checkpoint_is_kept_whole]
    FingerprintCut "keeps and compares half of a fingerprint" [fingerprint_keeps_all_its_bytes]

    // Steps in two halves.
    CheckThenInsert "looks for a record, then inserts one" [claim_of_many_has_one_winner]
    ExpiredWithoutCompare "wipes an expired record that somebody else has wiped" [claim_of_an_expired_record_has_one_winner]
    RetryWithoutCompare "retries a released record that somebody else retries" [failure_retry_has_one_winner]
    TakeoverWithoutCompare "takes over whatever is there by then" [lease_takeover_has_one_winner]
    TakeoverComparesOnlyToken "takes over if the token is still the same" [lease_takeover_stops_at_a_mark lease_renewal_races_a_takeover]
    TakeoverSkipsLease "takes over without looking at the lease again" [lease_renewal_races_a_takeover]
    TakeoverSkipsMark "takes over without looking for a mark again" [lease_takeover_stops_at_a_mark]
    TakeoverSkipsState "takes over without looking whether it has ended meanwhile" [fence_decides_between_end_and_takeover]
    TakeoverHandsOverOldRead "hands over the recovery point that it read before it wrote" [lease_takeover_hands_over_what_its_write_saw]
    RenewWithoutCompare "checks the fence, then renews whoever has the key" [lease_renewal_races_a_takeover]
    CheckpointWithoutCompare "checks the fence, then notes the checkpoint whatever is there" [fence_stops_a_late_checkpoint]
    CompleteWithoutCompare "checks the fence, then completes whatever is there" [fence_decides_between_end_and_takeover]
    ReleaseWithoutCompare "checks the fence, then releases whatever is there" [fence_decides_between_release_and_takeover]
    ResolveWithoutCompare "checks the version, then decides whatever is there" [resolve_by_two_lets_one_decide]
    SweepPicksThenDeletes "picks expired records, then deletes what has those keys" [sweep_keeps_what_is_claimed_meanwhile]
    AnsweredBeforeWritten "answers before its write is there for others" [claim_is_visible_before_it_returns complete_is_visible_before_it_returns]
    ReadsFromCopy "reads from a copy that lags by one write" [complete_ends_with_the_answer wait_ends_with_the_answer]
    DoneButUnavailable "says that it did not do what it did" [claim_first_takes_the_key claim_storm_is_answered]
    WedgedByDrop "keeps its lock when a call is dropped" [cancel_of_a_first_claim cancel_of_a_hundred_leaves_the_store_answering]
    WaitersHoldConnections "keeps the connection of a duplicate that it told to wait" [wait_leaves_the_owner_everything]

    // Claims.
    ClaimClampsSpans "clamps a lease or retention that it cannot add" [claim_refuses_absurd_spans]
    LeaseBoundaryOpen "takes a lease for live at the very instant of its end" [lease_renewed_with_zero_is_handed_on]
    ExpiryBoundaryOpen "keeps a record at the very instant of its expiry" [complete_for_no_time_is_over_at_once]
    RerunBoundaryClosed "runs again at the very instant at which that time ends" [checkpoint_until_now_is_over_now]
    NeverTakenOver "never takes a stale record over" [lease_over_is_taken_over wait_ends_with_a_takeover]
    TakenOverWhileLive "takes a live record over" [lease_live_is_not_taken_over claim_second_waits_for_the_lease]
    LeaseByTakersSpan "judges the owner's lease by the taker's span" [lease_of_the_taker_does_not_matter]
    LeaseByAppClock "judges leases by the caller's clock" [lease_over_is_taken_over]
    LeaseWrittenByAppClock "writes leases by the caller's clock" [lease_counts_by_the_stores_clock]
    ExpiryByAppClock "judges expiry by the caller's clock" [claim_of_an_expired_record_starts_anew replay_lasts_as_long_as_retention]
    ExpiredIsReplayed "replays until the sweeper comes" [replay_lasts_as_long_as_retention claim_of_an_expired_record_starts_anew]
    InProgressExpires "wipes what is in progress once its retention is over" [claim_never_expires_what_is_in_progress]
    TakeoverKeepsToken "takes over under the token of the owner before" [lease_takeovers_count_the_owners fence_after_a_takeover_is_lost]
    RetryKeepsToken "retries under the token of the owner before" [fence_after_a_retry_is_lost fence_tokens_only_grow]
    TakeoverStartsAnew "takes over as a new operation" [lease_takeover_keeps_the_operation]
    TakeoverIgnoresFingerprint "takes over for another request" [fingerprint_of_another_request_takes_nothing_over]
    TakeoverRewritesFingerprint "writes the taker's fingerprint into the record" [fingerprint_of_an_older_version_is_accepted]
    TakeoverForgetsPoint "does not hand over the recovery point" [lease_takeover_hands_over_the_point]
    TakeoverForgetsMark "forgets the open mark of the owner before" [checkpoint_survives_takeover_and_retry lease_takeover_keeps_the_operation]
    TakeoverMovesExpiry "moves the expiry when it takes over" [lease_takeover_keeps_the_operation]
    RetryForgetsPoint "starts a retry from the top" [failure_keeps_the_recovery_point]
    RetryWaitsForLease "makes a retry wait for the lease of the owner that released" [failure_frees_the_key_at_once]
    RetryIgnoresFingerprint "retries for another request" [fingerprint_of_another_request_retries_nothing]
    ReplayIgnoresFingerprint "replays to another request" [fingerprint_of_another_request_sees_no_answer]
    ReplayExtends "extends the retention of what it replays" [replay_writes_nothing]
    LiveIgnoresFingerprint "lets another request wait" [fingerprint_of_another_request_waits_for_nobody]
    DoubtIgnoresFingerprint "tells another request of the doubt" [fingerprint_of_another_request_is_not_in_doubt]
    OwnerSkipsFingerprint "takes the attempt id for proof of the same request" [fingerprint_counts_even_for_the_owner]
    MismatchExtendsLease "renews the lease of a mismatch" [fingerprint_refusals_write_nothing]
    UnknownVersionMismatches "takes an unknown version for another request" [fingerprint_of_an_unknown_version_is_unavailable]
    UnknownVersionAccepted "takes an unknown version for the same request" [fingerprint_of_an_unknown_version_is_unavailable]
    OlderVersionsForgotten "compares with the current version only" [fingerprint_of_an_older_version_is_accepted]
    WipeKeepsOperation "keeps the operation's id when it wipes a record" [fence_of_an_earlier_operation_is_lost claim_of_an_expired_record_starts_anew]
    AttemptIsOperation "takes the caller's attempt id for the operation's" [fence_is_never_given_twice]
    WipeKeepsToken "keeps the token when it wipes a record" [claim_of_an_expired_record_starts_anew]
    WipeRestartsVersion "counts versions from 1 again when it wipes a record" [claim_of_an_expired_record_starts_anew]
    WipeKeepsPoint "keeps the recovery point when it wipes a record" [claim_of_an_expired_record_starts_anew]
    OwnClaimConflicts "does not recognise a claim that is sent again" [claim_again_by_its_owner_is_his ambiguity_of_a_first_claim_is_settled]
    OwnClaimNotRenewed "only reads when a claim is sent again" [claim_again_by_its_owner_is_his]
    OwnClaimRaisesToken "takes over from its own caller" [claim_again_is_his_after_the_lease]
    OwnClaimShortensLease "shortens the lease when a claim is sent again" [claim_again_never_shortens_the_lease]
    OwnClaimForgetsPoint "hands no checkpoint over when a claim is sent again" [claim_again_hands_over_the_checkpoint ambiguity_of_a_phase_is_settled_by_its_claim]
    DoubtIsRunAgain "runs again what may not run again" [checkpoint_never_is_in_doubt_once_stale]
    RerunNeverEnds "runs a marked effect again for ever" [checkpoint_until_lets_run_again_in_time]
    DoubtSinceLease "dates doubt from the lease alone" [checkpoint_doubt_dates_from_the_later_end]
    RetryAfterZero "tells a duplicate to ask again at once" [claim_second_waits_for_the_lease]
    RetryAfterWholeLease "tells a duplicate to wait for a whole lease" [claim_second_waits_for_the_lease]

    // Requests.
    RequestForgotten "does not keep what was asked for" [request_is_kept_whole]
    RequestAsText "keeps what was asked for as UTF-8" [request_is_kept_whole]
    RequestWithoutRoute "keeps the bytes of a request and not its route" [request_is_kept_whole]
    RequestOfTheTaker "stores the taker's request" [request_of_the_first_claim_stays]
    RequestOfTheTakerIfNone "stores the taker's request where there is none" [request_is_stored_only_if_given]
    RequestOfTheRetry "stores the request of a retry" [request_of_the_first_claim_stays]
    RequestOfTheWaiting "stores the request of a claim that has to wait" [request_is_not_taken_from_the_refused]
    RequestOutlivesWipe "keeps what was asked for when it wipes a record" [request_of_an_expired_record_is_replaced]
    RequestForgottenByWipe "stores no request when it wipes a record" [request_of_an_expired_record_is_replaced request_of_an_expired_answer_is_not_missed]
    RequestOutlivesAnswer "keeps what was asked for beside the answer" [request_goes_with_the_answer request_goes_with_a_decided_answer]
    RequestForgottenByRelease "drops what was asked for with a release" [request_survives_what_ends_nothing]
    RequestForgottenByCheckpoint "drops what was asked for with a checkpoint" [request_survives_what_ends_nothing]
    RequestForgottenByDecision "drops what was asked for with any decision" [request_goes_with_a_decided_answer]

    // Renewals.
    RenewWithoutFence "renews for anybody" [fence_after_a_takeover_is_lost]
    RenewsEveryScope "renews the key in every scope" [fence_of_one_key_moves_no_other]
    RenewAfterEnd "renews what has ended" [lease_of_an_ended_record_cannot_be_renewed]
    RenewNeedsLiveLease "refuses an owner whose lease is over" [lease_over_can_be_renewed_by_its_owner]
    RenewShortens "sets the lease even if that is shorter" [lease_renewal_never_shortens]
    RenewZeroIgnored "does not hand on" [lease_renewed_with_zero_is_handed_on]
    RenewNotCounted "does not count renewals in the version" [lease_renewal_touches_nothing_else resolve_is_lost_when_the_record_moved]
    RenewClampsSpans "clamps a renewal that it cannot add" [lease_refuses_absurd_renewals]
    RenewMovesExpiry "moves the expiry with the lease" [lease_renewal_touches_nothing_else]

    // Checkpoints.
    CheckpointWithoutFence "notes checkpoints of anybody" [fence_after_a_takeover_is_lost]
    CheckpointAfterEnd "notes checkpoints of what has ended" [checkpoint_after_the_end_is_lost]
    CheckpointUnnumbered "writes the checkpoint that comes last" [checkpoint_late_undoes_nothing]
    CheckpointLowerIsFine "answers a late checkpoint with ok" [checkpoint_late_undoes_nothing]
    CheckpointSameIsRefused "refuses a checkpoint that is sent again" [checkpoint_again_is_taken_for_itself]
    CheckpointOtherIsFine "answers another point under a used number with ok" [checkpoint_number_is_used_once]
    CheckpointIgnoresName "takes a point of another name for the same" [checkpoint_number_is_used_once]
    CheckpointNumbersPerOwner "counts checkpoints per owner" [checkpoint_numbers_run_over_all_owners]
    CheckpointRenews "renews the lease with a checkpoint" [checkpoint_changes_nothing_else]
    CheckpointRefusesSkips "refuses a checkpoint whose number does not follow" [checkpoint_numbers_may_skip]
    CheckpointClampsSpans "clamps a time to run again that it cannot add" [checkpoint_refuses_an_absurd_window]
    UntilTakesLater "takes the later of two ends" [checkpoint_until_keeps_the_earlier_end]
    UntilSoftensNever "lets a keyed mark soften one that may never run again" [checkpoint_never_is_not_softened]
    KeepRaises "closes the other mark with a result" [checkpoint_keep_never_raises]
    AgainPastItsTime "marks an effect again past its time" [checkpoint_again_can_be_too_late]
    AgainPastItsTimeForItself "takes a mark for itself past its time" [checkpoint_again_can_be_too_late]
    AgainPushesTime "pushes the time to run again with each mark" [checkpoint_again_leaves_the_time]
    AlwaysNeverRaises "leaves a mark open when its result is recorded" [checkpoint_always_closes_the_effect]

    // Ends.
    CompleteWithoutFence "completes for anybody" [fence_after_a_takeover_is_lost]
    CompleteComparesOnlyToken "completes for the same token of another operation" [fence_of_an_earlier_operation_is_lost]
    CompleteNeedsLiveLease "refuses the end of an owner whose lease is over" [lease_over_does_not_end_the_work]
    CompleteOverwrites "lets a second completion replace the first" [complete_again_keeps_the_first]
    CompleteNotRepeatable "takes a second completion for lost" [complete_again_keeps_the_first ambiguity_of_a_completion_is_settled]
    CompletedByOtherIsMine "takes another owner's completion for its own" [complete_by_another_owner_is_lost]
    CompleteAfterRelease "completes what was released" [complete_after_a_release_is_lost]
    CompleteRefusesOpenEffect "refuses an answer while an effect is open" [complete_takes_an_open_effect]
    EndClampsSpans "clamps a retention that it cannot add" [complete_refuses_absurd_retention failure_refuses_absurd_retention]
    EndKeepsExpiry "counts retention from the claim" [complete_is_kept_from_the_end sweep_counts_retention_from_the_end]
    EndShrinksExpiry "lets an end shorten what the claim promised to keep" [complete_never_shrinks_what_was_promised]
    ReleaseWithoutFence "releases for anybody" [fence_after_a_takeover_is_lost]
    ReleaseWithOpenEffect "releases while an effect is open" [failure_is_refused_while_an_effect_is_open]
    ReleaseLooksAtEffectsFirst "refuses the release of what has ended with an open effect" [failure_after_completion_is_lost]
    ReleaseNotRepeatable "takes a second release for lost" [failure_again_is_the_same ambiguity_of_a_release_is_settled]
    ReleaseOverwritesAnswer "releases what was completed" [failure_after_completion_is_lost]
    ReleaseNeedsLiveLease "refuses the release of an owner whose lease is over" [failure_past_the_lease_is_taken]
    ReleaseForgetsPoint "forgets the recovery point on a release" [failure_keeps_the_recovery_point]

    // Decisions.
    ResolveWithoutVersion "decides what has moved since it was seen" [resolve_is_lost_when_the_record_moved]
    ResolveAnything "decides what is not in doubt" [resolve_settles_only_what_is_in_doubt]
    ResolveKeepsToken "leaves the old owner's token" [fence_survives_a_decision resolve_shuts_the_old_owner_out]
    ResolveKeepsAttempt "leaves the old owner's attempt id" [resolve_shuts_the_old_owner_out]
    ResolveKeepsMark "leaves the mark open" [resolve_resumes_and_the_next_goes_on]
    ResolveForgetsRetention "does not keep what was decided for its retention" [resolve_counts_retention_from_the_decision]
    ResolveFailKeepsPoint "declares it not done and leaves its recovery point" [resolve_fails_and_the_next_starts_anew]
    ResolveFailFreesNumbers "declares it not done and counts checkpoints from 1 again" [resolve_fails_and_the_next_starts_anew]
    ResolveResumesAnywhere "takes a resumption of any number" [resolve_numbers_a_resumption]
    ResolveResumeExtends "counts retention from a resumption" [resolve_resumes_without_moving_the_expiry]
    ResolveNotRepeatable "takes a decision that is sent again for lost" [resolve_again_is_the_same ambiguity_of_a_decision_is_settled]
    ResolveTakesEndsForItself "takes an owner's end for the decision" [resolve_is_never_taken_for_an_owners_step]
    ResolveAnyDecisionAgain "takes another decision for the one that was taken" [resolve_by_another_decision_is_lost]

    // Maintenance.
    SweepByAge "sweeps by age, whatever the state" [sweep_never_takes_what_is_in_progress sweep_never_takes_what_is_in_doubt]
    SweepTakesWhatEnded "sweeps what has ended, retained or not" [sweep_keeps_what_is_retained]
    SweepZeroMeansAll "takes a limit of zero for none" [sweep_of_nothing_deletes_nothing]
    SweepIgnoresLimit "sweeps all at once" [sweep_deletes_at_most_its_limit]
    SweepStopsAtTheLiving "looks at as many records as it may delete" [sweep_passes_over_the_living]
    SweepCountsPicks "counts what it picked, not what it deleted" [sweep_by_many_counts_each_once]
    FindReadsCopy "shows the record as it was one write ago" [admin_find_sees_what_others_wrote]
    FindForgets "deletes what has expired when somebody looks at it" [admin_find_changes_nothing]
    StuckListsLive "lists what is at work as stuck" [admin_stuck_leaves_out_the_rest]
    StuckYoungestFirst "lists the youngest first" [admin_stuck_lists_the_longest_first]
    StuckIgnoresLimit "lists all that is stuck" [admin_stuck_lists_the_longest_first]
    StuckForNothing "does not tell for how long it is stuck" [admin_stuck_says_for_how_long]
    NoticeDeletes "deletes a record when it is told of its end" [admin_notice_of_an_end_changes_nothing]
    StuckForgetsDoubt "does not tell what waits for a decision" [admin_stuck_tells_what_is_in_doubt]
}

//! The list of cases: the one place that names them all, with what each holds a store to.

mod admin;
mod ambiguity;
mod cancel;
mod checkpoint;
mod claim;
mod complete;
mod failure;
mod fence;
mod fingerprint;
mod lease;
mod replay;
mod request;
mod resolve;
mod scene;
mod sweep;
mod wait;

use crate::{Case, bench::Bench};

/// Hands the list to another macro, after that macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __every_case {
    ([$($then:tt)+] $arguments:tt) => {
        $($then)+! { $arguments
            claim {
                claim_first_takes_the_key "the first claim of a key takes it: a new operation, token 1"
                claim_second_waits_for_the_lease
                    "while the owner is at work a duplicate is told what is left of its lease"
                claim_is_visible_before_it_returns
                    "a claim that was answered is there for every other connection"
                claim_again_by_its_owner_is_his
                    "a claim that is sent again keeps its fence and has its lease renewed"
                claim_again_is_his_after_the_lease
                    "a claim that is sent again after its lease is still its owner's, if nobody took it over"
                claim_again_never_shortens_the_lease "a claim that is sent again does not shorten the lease"
                claim_again_hands_over_the_checkpoint
                    "a claim that is sent again returns the last checkpoint: this is how an unknown commit is settled"
                claim_again_after_a_takeover_waits
                    "a claim that is sent again after it was taken over waits like everybody"
                claim_again_after_the_end_is_answered_by_it
                    "a claim that is sent again after the end gets the stored answer, or retries what was released"
                claim_keeps_scopes_apart "one key in two scopes is two records"
                claim_compares_keys_byte_for_byte
                    "keys that differ in case or in a blank at the end are different keys"
                claim_takes_the_longest_names
                    "a key of 255 characters in a scope of 1024 bytes of any text is kept whole"
                claim_takes_text_as_text
                    "quotes, braces, wildcards and commands in a scope or key are only text"
                claim_of_many_has_one_winner
                    "of many first claims at once exactly one takes the key, and the others see its lease"
                claim_storm_is_answered "of 64 claims at once each is answered, at worst after being told to try again"
                claim_of_an_expired_record_starts_anew
                    "a claim of an expired record is a new operation: token 1, no checkpoint, the next version"
                claim_of_an_expired_record_has_one_winner
                    "of many claims of an expired record exactly one wipes it"
                claim_never_expires_what_is_in_progress
                    "what is in progress past its retention is taken over, never wiped"
                claim_refuses_absurd_spans
                    "a lease or retention that no clock can add is refused, and nothing is written"
            }
            lease {
                lease_live_is_not_taken_over "before its lease is over a record is not taken over"
                lease_over_is_taken_over
                    "after its lease is over a record is taken over: the same operation, the next token"
                lease_takeover_has_one_winner
                    "of many callers that meet a stale record exactly one takes it over"
                lease_takeover_keeps_the_operation
                    "taking over keeps the operation, its fingerprint, age, expiry, checkpoint and time to run again"
                lease_takeover_hands_over_the_point
                    "taking over returns the last owner's recovery point and its number"
                lease_takeover_hands_over_what_its_write_saw
                    "what a takeover hands over is what its write saw, not what an earlier read did"
                lease_takeover_stops_at_a_mark
                    "a takeover that meets a mark in the same instant does not run the effect again"
                lease_takeovers_count_the_owners "every takeover raises the token by one"
                lease_of_the_taker_does_not_matter
                    "only the owner's lease decides, whatever the taker's own is"
                lease_counts_by_the_stores_clock
                    "leases are written and judged by the store's clock, never by the caller's"
                lease_renewed_holds_longer "a renewed lease holds from the renewal on"
                lease_renewal_never_shortens "a renewal never shortens a lease"
                lease_renewal_touches_nothing_else
                    "a renewal changes the lease and the version and nothing else"
                lease_renewed_with_zero_is_handed_on
                    "a renewal by zero gives the key up at once, and the next claim resumes"
                lease_over_can_be_renewed_by_its_owner
                    "an owner whose lease is over may renew it, if nobody took it over"
                lease_of_an_ended_record_cannot_be_renewed "a record that has ended has no lease to renew"
                lease_renewal_races_a_takeover "of a renewal and a takeover at once exactly one has the key"
                lease_takes_the_shortest_and_the_longest "a lease of 1 ms and one of ten years work"
                lease_refuses_absurd_renewals
                    "a renewal that is neither zero nor 1 ms to ten years is refused"
                lease_over_does_not_end_the_work
                    "an owner whose lease is over still completes, if nobody took it over"
            }
            fence {
                fence_after_a_takeover_is_lost "after a takeover no write of the old owner changes a byte"
                fence_after_a_retry_is_lost "after a retry no write of the owner that released changes a byte"
                fence_of_an_earlier_operation_is_lost
                    "the same token of an earlier operation is not the fence"
                fence_after_a_sweep_is_lost "a write to a record that was swept is lost and makes no record"
                fence_that_was_never_given_is_lost "a fence that the store never gave is lost"
                fence_of_another_key_is_lost "the fence of one key is worth nothing on another"
                fence_of_one_key_moves_no_other
                    "a call changes no record but that of its key in its scope"
                fence_tokens_only_grow "within an operation every owner has the next token"
                fence_is_never_given_twice
                    "operation ids are drawn by the store and never come back, not even with a claim that is sent again"
                fence_decides_between_end_and_takeover
                    "of a late completion and a takeover at once exactly one happens"
                fence_decides_between_release_and_takeover
                    "of a late release and a claim at once either order holds, and nothing between"
                fence_decides_among_the_ends
                    "of a completion and a release at once exactly one ends the operation"
                fence_stops_a_late_checkpoint "a checkpoint that meets the end lands before it or not at all"
                fence_survives_a_decision "after a decision no write of the old owner changes a byte"
            }
            complete {
                complete_ends_with_the_answer "a completion stores the answer that every later claim gets"
                complete_is_visible_before_it_returns
                    "a completion that was answered is there for every other connection"
                complete_again_keeps_the_first
                    "a second completion by the same owner is fine, keeps the first answer and writes nothing"
                complete_after_a_release_is_lost "what was released is not completed afterwards"
                complete_by_another_owner_is_lost
                    "a completion is never taken for another owner's, not even with the same answer"
                complete_takes_an_open_effect "an operation may end with an answer while an effect is open"
                complete_settles_what_is_in_doubt
                    "a slow owner that still has the fence may complete what is in doubt"
                complete_is_kept_from_the_end
                    "an answer is kept for its retention from the end, however long the work took"
                complete_never_shrinks_what_was_promised
                    "a completion never shortens what the claim promised to keep"
                complete_for_no_time_is_over_at_once
                    "a record is expired at the very end of its retention: one of zero is expired at once"
                complete_keeps_the_rest_of_the_record
                    "a completion changes state, version and expiry and nothing else"
                complete_twice_at_once_keeps_one
                    "of two completions by one owner at once one answer is stored and both are told so"
                complete_takes_the_longest_retention "an answer can be kept for ten years"
                complete_refuses_absurd_retention
                    "a retention above ten years is refused, and the claim stays good"
            }
            replay {
                replay_is_the_same_every_time "every replay is the stored answer"
                replay_writes_nothing "a replay does not touch the record, nor extend its retention"
                replay_lasts_as_long_as_retention
                    "an answer is replayed until its retention is over and not after, swept or not"
                replay_keeps_every_byte_of_the_body
                    "a body comes back byte for byte: empty, NUL, not UTF-8, JSON with repeated names"
                replay_takes_a_large_body "a body of 1 MiB comes back whole"
                replay_tells_no_body_from_an_empty_one
                    "204, an empty 200, null and an empty object are different answers"
                replay_keeps_headers_as_they_were
                    "headers keep order, repetition, empty values and bytes that are not ASCII"
                replay_keeps_the_status "every final status comes back as it was"
                replay_is_of_the_owner_that_ended_it
                    "the answer is the one of the owner whose completion was taken"
                replay_is_whole_or_not_there "a claim that meets a completion sees the whole answer or none"
            }
            fingerprint {
                fingerprint_of_another_request_waits_for_nobody
                    "another request with the key of work in progress is a mismatch at once"
                fingerprint_of_another_request_takes_nothing_over
                    "another request does not take a stale record over"
                fingerprint_of_another_request_is_not_in_doubt
                    "another request with a key in doubt is a mismatch"
                fingerprint_of_another_request_sees_no_answer
                    "another request is never given the stored answer"
                fingerprint_of_another_request_retries_nothing
                    "another request does not retry what was released"
                fingerprint_counts_even_for_the_owner "an attempt id does not excuse another fingerprint"
                fingerprint_refusals_write_nothing
                    "a mismatch changes no byte of the record, in whatever state it is"
                fingerprint_that_expired_binds_nobody
                    "after its retention a key may stand for another request"
                fingerprint_of_an_older_version_is_accepted
                    "a record of an older version is claimed by requests that carry it, and keeps its fingerprint"
                fingerprint_of_an_older_version_still_differs
                    "a record is compared with the request's fingerprint of its own version"
                fingerprint_of_an_unknown_version_is_unavailable
                    "a record of a version that the request does not carry is neither a mismatch nor a replay"
                fingerprint_keeps_all_its_bytes "all 33 bytes of a fingerprint are kept and compared"
                fingerprint_of_the_winner_decides
                    "of two requests that race for one key the loser is a mismatch"
                fingerprint_is_compared_by_the_write
                    "a mismatch that races a takeover and a renewal is still a mismatch"
            }
            checkpoint {
                checkpoint_is_kept_whole
                    "a recovery point comes back whole: name, bytes and number up to their limits"
                checkpoint_changes_nothing_else "a checkpoint touches neither lease nor expiry"
                checkpoint_numbers_may_skip "checkpoint numbers may skip"
                checkpoint_again_is_taken_for_itself
                    "a checkpoint that is sent again is fine and writes nothing"
                checkpoint_number_is_used_once "another point under a used number is refused"
                checkpoint_late_undoes_nothing "a checkpoint that arrives late never undoes a later one"
                checkpoint_numbers_run_over_all_owners "numbers run on over takeovers and retries"
                checkpoint_after_the_end_is_lost
                    "a record that has ended takes no checkpoint, not even its last one again"
                checkpoint_refuses_an_absurd_window "a time to run again above ten years is refused"
                checkpoint_until_lets_run_again_in_time
                    "a new owner may run a marked effect again until its time is over, then it is in doubt"
                checkpoint_until_now_is_over_now
                    "a time to run again is over at its very end: one of zero is over at once"
                checkpoint_until_keeps_the_earlier_end
                    "of two ends of the time to run again the earlier counts"
                checkpoint_never_is_in_doubt_once_stale
                    "an effect that may not run again is in doubt once the lease is over, and stays so"
                checkpoint_never_is_not_softened "no later mark or result makes an open effect runnable again"
                checkpoint_always_closes_the_effect
                    "once its result is recorded the operation may be taken over again"
                checkpoint_again_leaves_the_time "marking an effect again keeps the time to run it"
                checkpoint_again_can_be_too_late
                    "marking an effect again after its time is refused, also when it is sent again"
                checkpoint_keep_never_raises
                    "a result beside another open mark does not reopen the time to run again"
                checkpoint_doubt_dates_from_the_later_end
                    "doubt dates from the later end of lease and time to run again"
                checkpoint_survives_takeover_and_retry "an open mark stays open for the next owner"
                checkpoint_pairs_of_one_owner_do_not_cross
                    "of two checkpoints at once the higher number stands"
            }
            failure {
                failure_frees_the_key_at_once
                    "what was released is claimed again at once: the same operation, the next token"
                failure_retry_has_one_winner "of many retries of a released record exactly one runs"
                failure_keeps_the_recovery_point "a retry goes on from the last recovery point"
                failure_keeps_the_rest_of_the_record
                    "a release changes state, version and expiry and nothing else"
                failure_again_is_the_same "a second release by the same owner is fine and writes nothing"
                failure_after_completion_is_lost "what was completed is not released afterwards"
                failure_is_refused_while_an_effect_is_open "an unknown outcome never becomes a failure"
                failure_is_taken_after_the_effect_was_withdrawn
                    "an effect that is known not to have happened may be released"
                failure_past_the_lease_is_taken
                    "an owner whose lease is over may release, if nobody took it over"
                failure_is_kept_from_its_end
                    "a released record is kept for its retention from the end, and never shorter than promised"
                failure_refuses_absurd_retention
                    "a retention above ten years is refused, and the claim stays good"
                failure_meets_a_mark_in_one_order "a release that meets a mark never frees a marked effect"
            }
            request {
                request_is_kept_whole
                    "what was asked for comes back whole: route and bytes up to their limits"
                request_is_stored_only_if_given
                    "where the first claim stores nothing, no later owner's claim does"
                request_of_the_first_claim_stays
                    "a claim sent again, a takeover and a retry leave what the first claim asked for"
                request_is_not_taken_from_the_refused "a claim that is not taken stores nothing"
                request_of_an_expired_record_is_replaced
                    "a new operation stores what its own claim asks for, or nothing"
                request_of_an_expired_answer_is_not_missed
                    "a new operation in the place of an expired answer stores what it asks for"
                request_survives_what_ends_nothing
                    "renewals, checkpoints and releases leave what was asked for"
                request_goes_with_the_answer "a completion drops what was asked for"
                request_goes_with_a_decided_answer
                    "a decision to complete drops what was asked for, any other leaves it"
                request_is_listed_with_what_is_stuck "the list of what is stuck shows what was asked for"
            }
            resolve {
                resolve_completes "what is in doubt can be ended with an answer"
                resolve_fails_and_the_next_starts_anew
                    "what is in doubt can be declared not done: no recovery point is left, its number stays used"
                resolve_resumes_and_the_next_goes_on
                    "what is in doubt can be given a result, and the next claim goes on from there"
                resolve_again_is_the_same "a decision that is sent again is recognised and writes nothing"
                resolve_by_another_decision_is_lost "a second, different decision is lost"
                resolve_is_never_taken_for_an_owners_step
                    "what an owner did meanwhile is not this decision, not even with the same answer or point"
                resolve_settles_only_what_is_in_doubt
                    "what is at work, runnable or ended is nobody's to decide"
                resolve_is_lost_when_the_record_moved
                    "a decision about a record that has moved since is lost, and a renewal moves it"
                resolve_is_of_one_operation "a decision about another operation or key is lost"
                resolve_shuts_the_old_owner_out
                    "after a decision neither a write nor a claim of the old owner's is recognised"
                resolve_numbers_a_resumption "a resumption has to be numbered one above the last checkpoint"
                resolve_counts_retention_from_the_decision
                    "what was decided is kept for its retention from then on"
                resolve_resumes_without_moving_the_expiry
                    "a resumption ends nothing: retention counts from the end that is still to come"
                resolve_refuses_absurd_retention "a retention above ten years is refused"
                resolve_by_two_lets_one_decide "of two decisions at once exactly one is taken"
                resolve_meets_a_late_owner
                    "a decision that meets a late write of the owner's comes before or after it"
            }
            sweep {
                sweep_deletes_what_outlived_its_retention
                    "a sweep deletes what ended and outlived its retention, and says how many"
                sweep_keeps_what_is_retained "a sweep keeps what is still retained"
                sweep_counts_retention_from_the_end
                    "retention counts from the end, however long the work took"
                sweep_never_takes_what_is_in_progress "a sweep never deletes what is in progress, however old"
                sweep_never_takes_what_is_in_doubt "a sweep never deletes what is in doubt, however old"
                sweep_deletes_at_most_its_limit "a sweep deletes at most its limit"
                sweep_passes_over_the_living "what may not be swept does not use up the limit"
                sweep_by_many_counts_each_once
                    "of many sweeps at once each record is deleted and counted by one"
                sweep_keeps_what_is_claimed_meanwhile
                    "a sweep that meets a claim of an expired record does not delete the new operation"
                sweep_and_a_late_write_do_not_meet "a late write that meets a sweep brings nothing back"
                sweep_of_nothing_deletes_nothing
                    "a sweep of an empty store, or with a limit of zero, deletes nothing"
            }
            ambiguity {
                ambiguity_of_a_first_claim_is_settled
                    "a first claim whose request or reply was lost is settled by sending it again"
                ambiguity_of_an_expired_claim_is_settled
                    "a claim of an expired record that was lost wipes it once"
                ambiguity_of_a_retry_is_settled "a retry that was lost raises the token once"
                ambiguity_of_a_takeover_is_settled "a takeover that was lost raises the token once"
                ambiguity_of_a_renewal_is_settled "a renewal or hand-on that was lost can be sent again"
                ambiguity_of_a_checkpoint_is_settled "a checkpoint that was lost is written once"
                ambiguity_of_a_completion_is_settled
                    "a completion that was lost stores one answer, and its owner is told that it is his"
                ambiguity_of_a_release_is_settled "a release that was lost can be sent again"
                ambiguity_of_a_decision_is_settled "a decision that was lost can be sent again"
                ambiguity_of_a_sweep_is_settled "a sweep that was lost can be sent again"
                ambiguity_of_a_phase_is_settled_by_its_claim
                    "an unknown commit is settled by sending the claim again: the number of the last checkpoint tells"
                ambiguity_late_claim_takes_nothing
                    "a claim that arrives late waits or is answered like any other"
                ambiguity_late_takeover_meets_a_renewal
                    "a takeover that arrives after a renewal takes nothing over"
                ambiguity_late_claim_holds_for_one_lease
                    "a claim that arrives on a free key, with nobody waiting for it, holds it for one lease under a new operation"
                ambiguity_late_renewal_lands_nowhere "a renewal that arrives late changes nothing"
                ambiguity_late_checkpoint_lands_nowhere "a checkpoint that arrives late changes nothing"
                ambiguity_late_completion_lands_nowhere "a completion that arrives late changes nothing"
                ambiguity_late_release_lands_nowhere "a release that arrives late changes nothing"
                ambiguity_late_decision_lands_nowhere "a decision that arrives late changes nothing"
                ambiguity_late_sweep_keeps_the_living "a sweep that arrives late judges again what it deletes"
                ambiguity_in_a_crowd_has_one_winner
                    "of many claims that are sent again at once only the one that landed first has the key"
            }
            cancel {
                cancel_of_a_first_claim "a first claim may be dropped at any await and sent again"
                cancel_of_an_expired_claim
                    "a claim of an expired record may be dropped at any await and sent again"
                cancel_of_a_retry "a retry may be dropped at any await and sent again"
                cancel_of_a_takeover "a takeover may be dropped at any await and sent again"
                cancel_of_a_renewal "a renewal or hand-on may be dropped at any await and sent again"
                cancel_of_a_checkpoint "a checkpoint may be dropped at any await and sent again"
                cancel_of_a_completion "a completion may be dropped at any await and sent again"
                cancel_of_a_release "a release may be dropped at any await and sent again"
                cancel_of_a_decision "a decision may be dropped at any await and sent again"
                cancel_of_a_sweep "a sweep may be dropped at any await and sent again"
                cancel_of_a_hundred_leaves_the_store_answering
                    "dropped calls use up no connection, lock or permit"
            }
            wait {
                wait_leaves_the_owner_everything
                    "duplicates that were told to wait, however many, hold nothing that the owner needs"
                wait_ends_with_the_answer "a duplicate that asks again gets the answer once it is there"
                wait_ends_with_a_takeover
                    "of duplicates that ask again after the lease one takes over, and the others wait on"
            }
            admin {
                admin_find_of_nothing_is_nothing "an unknown key has no record"
                admin_find_changes_nothing "looking at a record changes nothing, stale or expired"
                admin_find_sees_what_others_wrote "a look sees what another connection wrote"
                admin_stuck_lists_the_longest_first "what is stuck is listed longest first, at most the limit"
                admin_stuck_says_for_how_long "the list says for how long, by the store's clock"
                admin_stuck_tells_what_is_in_doubt
                    "the list tells what waits for a decision from what the next claim takes over"
                admin_stuck_leaves_out_the_rest "what is at work or has ended is not stuck"
                admin_stuck_sees_a_hand_on "what was handed on is stuck until somebody claims it"
                admin_stuck_changes_nothing "listing changes nothing"
                admin_notice_of_an_end_changes_nothing "the notice of an end changes no record"
            }
        }
    };
}

macro_rules! list {
    ([$list:ident] $($group:ident { $($name:ident $promise:literal)+ })+) => {
        pub(crate) const $list: &[Case] = &[$($(
            Case {
                name: stringify!($name),
                group: stringify!($group),
                promise: $promise,
                run: |bench: &Bench| Box::pin($group::$name(bench)),
            },
        )+)+];
    };
}

__every_case! { [list] [ALL] }

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::ALL;

    #[test]
    fn names_are_unique_and_promises_are_one_line() {
        let names: HashSet<_> = ALL.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), ALL.len());
        for case in ALL {
            assert!(case.name.starts_with(&format!("{}_", case.group)), "{}", case.name);
            assert!(!case.promise.contains(['\n', '|']) && !case.promise.ends_with('.'), "{}", case.name);
        }
    }
}

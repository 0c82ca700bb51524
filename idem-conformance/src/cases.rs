//! The list of cases: the one place that names them all, with what each holds a store to.

mod claim;
mod fence;
mod lease;
mod sweep;

use crate::{Case, bench::Bench};

/// Hands the list to another macro, after that macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __every_case {
    ([$($then:tt)+] $arguments:tt) => {
        $($then)+! { $arguments
            claim {
                claim_first_takes_the_key "the first claim of a key takes it: a new operation, token 1"
                claim_second_waits_for_the_lease "while the owner is at work a duplicate is told what is left of its lease"
                claim_is_visible_before_it_returns "a claim that was answered is there for every other connection"
                claim_again_by_its_owner_is_his "a claim that is sent again keeps its fence and has its lease renewed"
                claim_again_is_his_after_the_lease "a claim that is sent again after its lease is still its owner's, if nobody took it over"
                claim_again_never_shortens_the_lease "a claim that is sent again does not shorten the lease"
                claim_again_hands_over_the_checkpoint "a claim that is sent again returns the last checkpoint: this is how an unknown commit is settled"
                claim_again_after_a_takeover_waits "a claim that is sent again after it was taken over waits like everybody"
                claim_again_after_the_end_is_answered_by_it "a claim that is sent again after the end gets the stored answer, or retries what was released"
                claim_keeps_scopes_apart "one key in two scopes is two records"
                claim_compares_keys_byte_for_byte "keys that differ in case or in a blank at the end are different keys"
                claim_takes_the_longest_names "a key of 255 characters in a scope of 1024 bytes of any text is kept whole"
                claim_takes_text_as_text "quotes, braces, wildcards and commands in a scope or key are only text"
                claim_of_many_has_one_winner "of many first claims at once exactly one takes the key, and the others see its lease"
                claim_storm_is_answered "of 64 claims at once none gets an error"
                claim_of_an_expired_record_starts_anew "a claim of an expired record is a new operation: token 1, no checkpoint, the next version"
                claim_of_an_expired_record_has_one_winner "of many claims of an expired record exactly one wipes it"
                claim_never_expires_what_is_in_progress "what is in progress past its retention is taken over, never wiped"
                claim_refuses_absurd_spans "a lease or retention that no clock can add is refused, and nothing is written"
            }
            lease {
                lease_live_is_not_taken_over "before its lease is over a record is not taken over"
                lease_over_is_taken_over "after its lease is over a record is taken over: the same operation, the next token"
                lease_takeover_has_one_winner "of many callers that meet a stale record exactly one takes it over"
                lease_takeover_keeps_the_operation "taking over keeps the operation, its fingerprint, age, expiry, checkpoint and time to run again"
                lease_takeover_hands_over_the_point "taking over returns the last owner's recovery point and its number"
                lease_takeover_hands_over_what_its_write_saw "what a takeover hands over is what its write saw, not what an earlier read did"
                lease_takeover_stops_at_a_mark "a takeover that meets a mark in the same instant does not run the effect again"
                lease_takeovers_count_the_owners "every takeover raises the token by one"
                lease_of_the_taker_does_not_matter "only the owner's lease decides, whatever the taker's own is"
                lease_counts_by_the_stores_clock "leases are written and judged by the store's clock, never by the caller's"
                lease_renewed_holds_longer "a renewed lease holds from the renewal on"
                lease_renewal_never_shortens "a renewal never shortens a lease"
                lease_renewal_touches_nothing_else "a renewal changes the lease and the version and nothing else"
                lease_renewed_with_zero_is_handed_on "a renewal by zero gives the key up at once, and the next claim resumes"
                lease_over_can_be_renewed_by_its_owner "an owner whose lease is over may renew it, if nobody took it over"
                lease_of_an_ended_record_cannot_be_renewed "a record that has ended has no lease to renew"
                lease_renewal_races_a_takeover "of a renewal and a takeover at once exactly one has the key"
                lease_takes_the_shortest_and_the_longest "a lease of 1 ms and one of ten years work"
                lease_refuses_absurd_renewals "a renewal that is neither zero nor 1 ms to ten years is refused"
                lease_over_does_not_end_the_work "an owner whose lease is over still completes, if nobody took it over"
            }
            fence {
                fence_after_a_takeover_is_lost "after a takeover no write of the old owner changes a byte"
                fence_after_a_retry_is_lost "after a retry no write of the owner that released changes a byte"
                fence_of_an_earlier_operation_is_lost "the same token of an earlier operation is not the fence"
                fence_after_a_sweep_is_lost "a write to a record that was swept is lost and makes no record"
                fence_that_was_never_given_is_lost "a fence that the store never gave is lost"
                fence_of_another_key_is_lost "the fence of one key is worth nothing on another"
                fence_tokens_only_grow "within an operation every owner has the next token"
                fence_is_never_given_twice "operation ids are drawn by the store and never come back, not even with a claim that is sent again"
                fence_decides_between_end_and_takeover "of a late completion and a takeover at once exactly one happens"
                fence_decides_between_release_and_takeover "of a late release and a claim at once either order holds, and nothing between"
                fence_decides_among_the_ends "of a completion and a release at once exactly one ends the operation"
                fence_stops_a_late_checkpoint "a checkpoint that meets the end lands before it or not at all"
                fence_survives_a_decision "after a decision no write of the old owner changes a byte"
            }
            sweep {
                sweep_deletes_what_outlived_its_retention "a sweep deletes what ended and outlived its retention, and says how many"
                sweep_keeps_what_is_retained "a sweep keeps what is still retained"
                sweep_counts_retention_from_the_end "retention counts from the end, however long the work took"
                sweep_never_takes_what_is_in_progress "a sweep never deletes what is in progress, however old"
                sweep_never_takes_what_is_in_doubt "a sweep never deletes what is in doubt, however old"
                sweep_deletes_at_most_its_limit "a sweep deletes at most its limit"
                sweep_passes_over_the_living "what may not be swept does not use up the limit"
                sweep_by_many_counts_each_once "of many sweeps at once each record is deleted and counted by one"
                sweep_keeps_what_is_claimed_meanwhile "a sweep that meets a claim of an expired record does not delete the new operation"
                sweep_and_a_late_write_do_not_meet "a late write that meets a sweep brings nothing back"
                sweep_of_nothing_deletes_nothing "a sweep of an empty store, or with a limit of zero, deletes nothing"
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

//! The macro that turns the rules into tests.

/// Makes all rules tests of a store, in a module of that name: `conformance!(name, || subject)`.
/// The subject is created anew for each test.
///
/// The capabilities of a store are claimed after it: `conformance!(name, || subject, lifetime,
/// processes, outage, holds)`. For a capability that is not claimed there is a test `not_claimed_...`,
/// which fails if the subject has the capability.
///
/// See the example at the top of the crate.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $make:expr $(, $claim:ident)* $(,)?) => {
        mod $name {
            #[allow(unused_imports, reason = "only some callers have items that the arguments name")]
            use super::*;

            $crate::conformance! { @rules $make;
                vectors::{
                    vectors_are_answered_as_written,
                }
                sequences::{
                    random_sequences_equal_the_definition,
                    random_sequences_through_limiters_equal_the_definition,
                }
                denied::{
                    a_denied_hit_leaves_the_state_equal,
                    a_peek_changes_nothing,
                }
                times::{
                    no_more_than_the_burst_at_one_instant,
                    retry_after_is_exact,
                    a_jump_back_admits_nothing_and_locks_no_longer,
                    a_jump_forward_and_back_locks_no_longer,
                    all_handles_go_by_the_clock_of_the_store,
                }
                extremes::{
                    extreme_limits_equal_the_definition,
                    counts_saturate,
                }
                keys::{
                    different_keys_never_share_a_counter,
                    random_keys_never_share_a_counter,
                    long_keys_differ_in_any_byte,
                    integers_and_addresses_are_their_text,
                    namespaces_never_share_a_counter,
                    different_limits_never_share_a_counter,
                    a_limit_is_one_counter_alone_and_in_policies,
                    a_changed_quota_keeps_the_counters_of_a_named_limit,
                }
                together::{
                    all_keys_are_charged_or_none,
                    a_policy_charges_each_limit_once_or_none,
                    a_denial_charges_the_limits_that_charge_denied,
                    many_keys_are_hit_independently,
                    invalid_requests_are_errors,
                }
                bans::{
                    policies_with_a_ban_equal_the_definition,
                    a_ban_counts_only_the_denials_of_its_own_limits,
                    a_ban_starts_once_at_the_exact_denial,
                }
                concurrent::{
                    concurrent_callers_admit_exactly_the_limit,
                    fresh_keys_admit_exactly_one,
                    takes_share_out_exactly_the_limit,
                    refunds_amid_hits_leave_an_exact_count,
                    concurrent_policies_never_pass_a_limit,
                    concurrent_groups_never_pass_a_limit,
                }
                denials::{
                    a_remembered_denial_answers_as_the_store_would,
                    a_smaller_cost_is_not_denied_from_memory,
                    a_remembered_denial_includes_later_charges,
                    giving_back_ends_a_remembered_denial,
                    denials_that_change_the_state_are_never_remembered,
                }
            }
            $crate::conformance! { @lifetime $make; $($claim)* }
            $crate::conformance! { @processes $make; $($claim)* }
            $crate::conformance! { @outage $make; $($claim)* }
            $crate::conformance! { @holds $make; $($claim)* }
            $($crate::conformance! { @known $claim })*
        }
    };
    (@rules $make:expr; $($module:ident::{$($rule:ident),+ $(,)?})+) => {
        $($(#[test]
        fn $rule() {
            $crate::rules::$module::$rule(&($make)());
        })+)+
    };
    (@lifetime $make:expr; lifetime $($rest:ident)*) => {
        $crate::conformance! { @rules $make;
            lifetime::{
                state_lives_until_it_equals_a_fresh_one,
                state_does_not_live_for_ever,
                fresh_keys_take_no_room,
            }
        }
    };
    (@lifetime $make:expr; $other:ident $($rest:ident)*) => {
        $crate::conformance! { @lifetime $make; $($rest)* }
    };
    (@lifetime $make:expr;) => {
        #[test]
        fn not_claimed_lifetime() {
            $crate::not_claimed::lifetime(&($make)());
        }
    };
    (@processes $make:expr; processes $($rest:ident)*) => {
        #[test]
        fn several_processes_admit_exactly_the_limit() {
            const TEST: &str =
                concat!(module_path!(), "::several_processes_admit_exactly_the_limit");
            $crate::rules::processes::several_processes_admit_exactly_the_limit(TEST, $make);
        }
    };
    (@processes $make:expr; $other:ident $($rest:ident)*) => {
        $crate::conformance! { @processes $make; $($rest)* }
    };
    (@processes $make:expr;) => {
        #[test]
        fn not_claimed_processes() {
            $crate::not_claimed::processes(&($make)());
        }
    };
    (@outage $make:expr; outage $($rest:ident)*) => {
        $crate::conformance! { @rules $make;
            outage::{
                a_broken_store_gives_errors_in_time,
                without_the_store_the_rule_of_the_limiter_holds,
                a_mended_store_answers_again,
                an_unavailable_call_was_not_executed,
            }
        }
    };
    (@outage $make:expr; $other:ident $($rest:ident)*) => {
        $crate::conformance! { @outage $make; $($rest)* }
    };
    (@outage $make:expr;) => {
        #[test]
        fn not_claimed_outage() {
            $crate::not_claimed::outage(&($make)());
        }
    };
    (@holds $make:expr; holds $($rest:ident)*) => {
        $crate::conformance! { @rules $make;
            holds::{
                a_refund_reaches_only_the_window_that_was_charged,
                a_settlement_is_applied_once,
                a_hold_takes_all_items_or_none,
                a_release_frees_no_other_slot,
                an_expired_hold_frees_its_slots_and_keeps_its_charges,
                a_lost_reply_leaks_nothing,
                invalid_holds_are_errors,
                random_holds_equal_the_definition,
                concurrent_holders_never_exceed_the_limit,
            }
        }
    };
    (@holds $make:expr; $other:ident $($rest:ident)*) => {
        $crate::conformance! { @holds $make; $($rest)* }
    };
    (@holds $make:expr;) => {
        #[test]
        fn not_claimed_holds() {
            $crate::not_claimed::holds(&($make)());
        }
    };
    (@known holds) => {};
    (@known lifetime) => {};
    (@known processes) => {};
    (@known outage) => {};
    (@known $other:ident) => {
        compile_error!(concat!(
            stringify!($other),
            ": the claims are lifetime, processes, outage and holds"
        ));
    };
}

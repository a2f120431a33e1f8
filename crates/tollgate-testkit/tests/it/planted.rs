//! Stores with a planted fault. The rule that is named for a fault must catch it, else the rule
//! proves nothing. The same store without a fault must pass.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use tollgate_testkit::{conformance, rules};

use fault::Fault;
use files::Files;
use rules::processes::several_processes_admit_exactly_the_limit;
use store::Planted;

mod fault;
mod files;
mod store;
mod timer;

conformance!(without_a_fault, || Planted::new(None), lifetime, outage);

/// One test for each fault and each rule that must catch it.
macro_rules! caught {
    ($($fault:ident by $($module:ident::$rule:ident),+;)+) => {
        $(#[expect(non_snake_case, reason = "the module is named after the fault")]
        mod $fault {
            use super::*;

            $(#[test]
            fn $rule() {
                let run = || rules::$module::$rule(&Planted::new(Some(Fault::$fault)));
                assert!(is_caught(run), "{:?} went unseen", Fault::$fault);
            })+
        })+
    };
}

caught! {
    Racy by
        concurrent::concurrent_callers_admit_exactly_the_limit,
        concurrent::fresh_keys_admit_exactly_one,
        concurrent::takes_share_out_exactly_the_limit,
        concurrent::refunds_amid_hits_leave_an_exact_count,
        concurrent::concurrent_policies_never_pass_a_limit,
        concurrent::concurrent_groups_never_pass_a_limit;
    CountsForEachHandle by
        concurrent::concurrent_callers_admit_exactly_the_limit,
        keys::namespaces_never_share_a_counter;
    ShortTtl by
        lifetime::state_lives_until_it_equals_a_fresh_one,
        vectors::vectors_are_answered_as_written,
        sequences::random_sequences_equal_the_definition;
    NoTtl by lifetime::state_does_not_live_for_ever;
    KeepsFreshKeys by lifetime::fresh_keys_take_no_room;
    RoundsTimes by
        times::retry_after_is_exact,
        vectors::vectors_are_answered_as_written,
        sequences::random_sequences_equal_the_definition;
    RoundsLevels by
        vectors::vectors_are_answered_as_written,
        sequences::random_sequences_equal_the_definition;
    WrongBoundary by
        times::retry_after_is_exact,
        vectors::vectors_are_answered_as_written;
    ForgetsTheRest by
        vectors::vectors_are_answered_as_written,
        extremes::extreme_limits_equal_the_definition,
        sequences::random_sequences_equal_the_definition;
    ForgetsTheGuard by
        times::a_jump_back_admits_nothing_and_locks_no_longer,
        sequences::random_sequences_equal_the_definition;
    CountsIn32Bits by extremes::extreme_limits_equal_the_definition;
    CountsInFloats by
        extremes::extreme_limits_equal_the_definition,
        extremes::counts_saturate;
    LevelsInDoubles by extremes::extreme_limits_equal_the_definition;
    ChargesDenied by
        denied::a_denied_hit_leaves_the_state_equal,
        sequences::random_sequences_through_limiters_equal_the_definition;
    PeeksPush by denied::a_peek_changes_nothing;
    ChargesPoliciesTwice by
        together::a_policy_charges_each_limit_once_or_none,
        sequences::random_sequences_equal_the_definition;
    ChargesWhatFits by
        together::all_keys_are_charged_or_none,
        together::a_policy_charges_each_limit_once_or_none;
    ForgetsChargeDenied by together::a_denial_charges_the_limits_that_charge_denied;
    SkipsRepeatedKeys by together::many_keys_are_hit_independently;
    TakesClonesForOthers by together::invalid_requests_are_errors;
    JoinsParts by
        keys::different_keys_never_share_a_counter,
        keys::random_keys_never_share_a_counter;
    JoinsNamespaces by keys::namespaces_never_share_a_counter;
    CutsLongKeys by keys::long_keys_differ_in_any_byte;
    ForgetsPeriods by keys::different_limits_never_share_a_counter;
    CountsPoliciesApart by keys::a_limit_is_one_counter_alone_and_in_policies;
    ForgetsNames by keys::a_changed_quota_keeps_the_counters_of_a_named_limit;
    TagsIntegers by keys::integers_and_addresses_are_their_text;
    ClockOfEachHandle by times::all_handles_go_by_the_clock_of_the_store;
    AdmitsTheBurstTwice by times::no_more_than_the_burst_at_one_instant;
    TrustsTheLatestTime by times::a_jump_forward_and_back_locks_no_longer;
    RemembersBeyondRefunds by
        denials::giving_back_ends_a_remembered_denial,
        sequences::random_sequences_equal_the_definition;
    RemembersTooLong by denials::a_remembered_denial_answers_as_the_store_would;
    RemembersAnyCost by denials::a_smaller_cost_is_not_denied_from_memory;
    RemembersElasticWindows by denials::denials_that_change_the_state_are_never_remembered;
    ResetsInVain by sequences::random_sequences_equal_the_definition;
    AttemptsExtendBans by bans::policies_with_a_ban_equal_the_definition;
    BansStartOneDenialLate by
        bans::policies_with_a_ban_equal_the_definition,
        bans::a_ban_starts_once_at_the_exact_denial;
    LevelsOfBansNeverDecay by bans::policies_with_a_ban_equal_the_definition;
    AdmitsOnError by
        outage::a_broken_store_gives_errors_in_time,
        outage::without_the_store_the_rule_of_the_limiter_holds,
        outage::a_mended_store_answers_again;
    DeniesOnError by
        outage::a_broken_store_gives_errors_in_time,
        outage::without_the_store_the_rule_of_the_limiter_holds;
    BlocksOnError by outage::a_broken_store_gives_errors_in_time;
    ExecutesThoughUnavailable by outage::an_unavailable_call_was_not_executed;
}

/// Returns whether the rule fails in one of several runs. A rule with random calls does not meet
/// every fault in every run.
pub(crate) fn is_caught(rule: impl Fn()) -> bool {
    const RUNS: usize = 20;
    (0..RUNS).any(|_| catch_unwind(AssertUnwindSafe(&rule)).is_err())
}

/// Whether the rule about processes fails. A child only counts; its parent compares.
fn processes_are_caught<const SHARED: bool>(test: &str) -> Option<bool> {
    let made = OnceLock::new();
    let make = || made.get_or_init(Files::<SHARED>::new).clone();
    let test = format!("{}::{test}", module_path!());
    let run = || several_processes_admit_exactly_the_limit(&test, make);
    let caught = catch_unwind(AssertUnwindSafe(run)).is_err();
    made.get().map(|files| {
        files.remove();
        caught
    })
}

#[test]
fn processes_that_share_a_store_pass() {
    let caught = processes_are_caught::<true>("processes_that_share_a_store_pass");
    assert_ne!(caught, Some(true));
}

#[test]
fn processes_that_count_apart_are_caught() {
    let caught = processes_are_caught::<false>("processes_that_count_apart_are_caught");
    assert_ne!(caught, Some(false), "three counters instead of one went unseen");
}

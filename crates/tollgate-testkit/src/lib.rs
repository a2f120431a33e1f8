//! The conformance suite of tollgate: the rules that every store must obey, as tests for any store.
//!
//! An in-process store needs one line. A store that waits for a server provides a handle and its
//! runtime:
//!
//! ```
//! # mod example {
//! # struct Runtime;
//! # impl Runtime { fn block_on<F: Future>(&self, f: F) -> F::Output { tollgate_testkit::block_on(f) } }
//! # type MyStore = tollgate::shared::InProcess<tollgate::Memory>;
//! # impl MyTests { fn start() -> Self { MyTests { store: MyStore::new(tollgate::Memory::new()), runtime: Runtime } } }
//! struct MyTests { store: MyStore, runtime: Runtime }
//!
//! impl tollgate_testkit::Subject for MyTests {
//!     type Store = MyStore;
//!     fn store(&self) -> MyStore { self.store.clone() }
//!     fn block_on<F: Future>(&self, future: F) -> F::Output { self.runtime.block_on(future) }
//! }
//!
//! tollgate_testkit::conformance!(my_store, MyTests::start);
//! # }
//! ```
//!
//! Each rule becomes its own test, so that a failure has the name of the broken rule. The subject
//! is created anew for each rule, and each rule counts in its own namespace. So tests may share a
//! server, except those of the claim `outage`, which break it.
//!
//! # Claims
//!
//! Capabilities that not every store has are claimed in the macro, `conformance!(my_store,
//! MyTests::start, lifetime, processes, outage, holds)`, and most need methods of [`Subject`]. A capability
//! that is not claimed shows as a test `not_claimed_...`.
//!
//! # What the suite asks of the store it runs on
//!
//! - Most rules pass the time of each call, from 2025 to about 2040. The time stands still, jumps
//!   and goes back. While times are passed, a store must not free a state by its own clock during
//!   the test: its TTLs need a minute or more on top. The claim `lifetime` tests what a store does
//!   by its own clock.
//! - A store that cleans up during calls must be built without cleaning: a clean at a later time
//!   would be remembered when the time goes back.
//! - Several keys in one call have one tag ([`Tagged`](tollgate::Tagged)), so that clusters can
//!   decide them.
//! - Deadlines are ten seconds, except in `outage`.
//!
//! Random rules print the seed of a failure: set [`TOLLGATE_TESTKIT_SEED`](SEED) to run it again,
//! and [`TOLLGATE_TESTKIT_CASES`](CASES) to multiply the number of cases in soak runs.
//!
//! # The rules
//!
//! Answers:
//!
//! - [`vectors_are_answered_as_written`](rules::vectors::vectors_are_answered_as_written): every
//!   step of every vector
//! - [`random_sequences_equal_the_definition`](rules::sequences::random_sequences_equal_the_definition):
//!   random operations straight on the store, several in one call, policies and groups, time going
//!   forward, standing still and back; every field
//! - [`random_sequences_through_limiters_equal_the_definition`](rules::sequences::random_sequences_through_limiters_equal_the_definition):
//!   the same through limiters, as users call them
//! - [`a_denied_hit_leaves_the_state_equal`](rules::denied::a_denied_hit_leaves_the_state_equal):
//!   seen through every field for many costs at many later times
//! - [`a_peek_changes_nothing`](rules::denied::a_peek_changes_nothing): it does not push an elastic
//!   window either
//!
//! Time:
//!
//! - [`no_more_than_the_burst_at_one_instant`](rules::times::no_more_than_the_burst_at_one_instant):
//!   periods of 1 ms, 100 ms, 1.5 s, 31 days, a year
//! - [`retry_after_is_exact`](rules::times::retry_after_is_exact): refused one microsecond before,
//!   admitted on it, in the same periods
//! - [`a_jump_back_admits_nothing_and_locks_no_longer`](rules::times::a_jump_back_admits_nothing_and_locks_no_longer):
//!   by a second, a day, a year
//! - [`a_jump_forward_and_back_locks_no_longer`](rules::times::a_jump_forward_and_back_locks_no_longer):
//!   first ahead by a second, a day, a year, then back
//! - [`all_handles_go_by_the_clock_of_the_store`](rules::times::all_handles_go_by_the_clock_of_the_store):
//!   without a given time
//!
//! Extremes:
//!
//! - [`extreme_limits_equal_the_definition`](rules::extremes::extreme_limits_equal_the_definition):
//!   quotas of 1 and 10^12, bursts of 10^12, a thousand years
//! - [`counts_saturate`](rules::extremes::counts_saturate): charges of any size, at `MAX_UNITS`
//!
//! Keys:
//!
//! - [`different_keys_never_share_a_counter`](rules::keys::different_keys_never_share_a_counter):
//!   empty, zeros, separators, braces, bytes that are no text, tuples, tags
//! - [`random_keys_never_share_a_counter`](rules::keys::random_keys_never_share_a_counter): pairs
//!   that would be one if they were joined
//! - [`long_keys_differ_in_any_byte`](rules::keys::long_keys_differ_in_any_byte): up to 20,000
//!   bytes
//! - [`integers_and_addresses_are_their_text`](rules::keys::integers_and_addresses_are_their_text):
//!   `42` and `"42"` are one key
//! - [`namespaces_never_share_a_counter`](rules::keys::namespaces_never_share_a_counter): whatever
//!   they are called
//! - [`different_limits_never_share_a_counter`](rules::keys::different_limits_never_share_a_counter):
//!   limits that differ in one property
//! - [`a_limit_is_one_counter_alone_and_in_policies`](rules::keys::a_limit_is_one_counter_alone_and_in_policies):
//!   through any limiter
//! - [`a_changed_quota_keeps_the_counters_of_a_named_limit`](rules::keys::a_changed_quota_keeps_the_counters_of_a_named_limit):
//!   raised and lowered between calls
//!
//! Several keys or limits in one call:
//!
//! - [`all_keys_are_charged_or_none`](rules::together::all_keys_are_charged_or_none): twenty keys
//!   in one call
//! - [`a_policy_charges_each_limit_once_or_none`](rules::together::a_policy_charges_each_limit_once_or_none):
//!   and gives all back
//! - [`a_denial_charges_the_limits_that_charge_denied`](rules::together::a_denial_charges_the_limits_that_charge_denied):
//!   and no others
//! - [`many_keys_are_hit_independently`](rules::together::many_keys_are_hit_independently):
//!   keys that come twice included
//! - [`invalid_requests_are_errors`](rules::together::invalid_requests_are_errors): and
//!   charge nothing
//!
//! Concurrent callers:
//!
//! - [`concurrent_callers_admit_exactly_the_limit`](rules::concurrent::concurrent_callers_admit_exactly_the_limit):
//!   one key, threads with handles of their own, calls in flight together
//! - [`fresh_keys_admit_exactly_one`](rules::concurrent::fresh_keys_admit_exactly_one): two callers
//!   on each of many new keys
//! - [`takes_share_out_exactly_the_limit`](rules::concurrent::takes_share_out_exactly_the_limit):
//!   to the unit
//! - [`refunds_amid_hits_leave_an_exact_count`](rules::concurrent::refunds_amid_hits_leave_an_exact_count):
//!   nothing is left, nothing too much is held
//! - [`concurrent_policies_never_pass_a_limit`](rules::concurrent::concurrent_policies_never_pass_a_limit):
//!   policies with common limits
//! - [`concurrent_groups_never_pass_a_limit`](rules::concurrent::concurrent_groups_never_pass_a_limit):
//!   groups of keys in different orders
//!
//! Remembered denials:
//!
//! - [`a_remembered_denial_answers_as_the_store_would`](rules::denials::a_remembered_denial_answers_as_the_store_would):
//!   until the microsecond at which it ends
//! - [`a_smaller_cost_is_not_denied_from_memory`](rules::denials::a_smaller_cost_is_not_denied_from_memory):
//!   it may fit
//! - [`a_remembered_denial_includes_later_charges`](rules::denials::a_remembered_denial_includes_later_charges):
//!   of this process
//! - [`giving_back_ends_a_remembered_denial`](rules::denials::giving_back_ends_a_remembered_denial):
//!   refund, set, reset, clear
//! - [`denials_that_change_the_state_are_never_remembered`](rules::denials::denials_that_change_the_state_are_never_remembered):
//!   elastic windows and `charge_denied`
//!
//! Claim `lifetime`:
//!
//! - [`state_lives_until_it_equals_a_fresh_one`](rules::lifetime::state_lives_until_it_equals_a_fresh_one):
//!   TTLs cover the refill, not only the period
//! - [`state_does_not_live_for_ever`](rules::lifetime::state_does_not_live_for_ever): at most twice
//!   that and an hour
//! - [`fresh_keys_take_no_room`](rules::lifetime::fresh_keys_take_no_room): after a peek, a denial
//!   or a full refund
//!
//! Claim `processes`:
//!
//! - [`several_processes_admit_exactly_the_limit`](rules::processes::several_processes_admit_exactly_the_limit):
//!   the test binary starts itself again
//!
//! Claim `outage`:
//!
//! - [`a_broken_store_gives_errors_in_time`](rules::outage::a_broken_store_gives_errors_in_time):
//!   every operation, never a decision
//! - [`without_the_store_the_rule_of_the_limiter_holds`](rules::outage::without_the_store_the_rule_of_the_limiter_holds):
//!   error, open, closed, a local share
//! - [`a_mended_store_answers_again`](rules::outage::a_mended_store_answers_again): without help
//! - [`an_unavailable_call_was_not_executed`](rules::outage::an_unavailable_call_was_not_executed):
//!   a call that may have been executed is `Lost`
//!
//! Claim `holds`:
//!
//! - [`random_holds_equal_the_definition`](rules::holds::random_holds_equal_the_definition): calls on
//!   a few holds amid hits, every field equal, and never more live slots than the limit allows
//! - [`concurrent_holders_never_exceed_the_limit`](rules::holds::concurrent_holders_never_exceed_the_limit):
//!   real threads; every slot is free at the end
//! - [`a_refund_reaches_only_the_window_that_was_charged`](rules::holds::a_refund_reaches_only_the_window_that_was_charged)
//! - [`a_settlement_is_applied_once`](rules::holds::a_settlement_is_applied_once): the same figures,
//!   other figures, more than reserved
//! - [`a_hold_takes_all_items_or_none`](rules::holds::a_hold_takes_all_items_or_none): reserving and
//!   growing
//! - [`a_release_frees_no_other_slot`](rules::holds::a_release_frees_no_other_slot): twice, and after
//!   the deadline
//! - [`an_expired_hold_frees_its_slots_and_keeps_its_charges`](rules::holds::an_expired_hold_frees_its_slots_and_keeps_its_charges):
//!   by the time of the store
//! - [`a_lost_reply_leaks_nothing`](rules::holds::a_lost_reply_leaks_nothing): the same id again
//! - [`invalid_holds_are_errors`](rules::holds::invalid_holds_are_errors)

mod beside;
mod conformance;
mod executor;
mod ground;
pub mod model;
#[doc(hidden)]
pub mod not_claimed;
mod random;
pub mod rules;
mod sequence;
mod subject;
pub mod vectors;

pub use executor::block_on;
pub use random::{CASES, Random, SEED};
pub use sequence::sequences_as_json;
pub use subject::{Kept, OneStore, Subject};

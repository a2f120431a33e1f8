//! The conformance suite of tollgate: what every store must hold to, as tests that anybody's store
//! can run.
//!
//! A store in process is one line; one that waits brings a handle and its runtime:
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
//! Each rule becomes a test of its own, so that a failure is named after the rule that was broken.
//! The subject is made anew for each of them, and each rule counts in a namespace that nobody else
//! uses: a server may be shared between tests, except by those of the claim `outage`, which break
//! it.
//!
//! # Claims
//!
//! What not every store can show is claimed in the macro, `conformance!(my_store, MyTests::start,
//! lifetime, processes, outage)`, and served by methods of [`Subject`]. What is not claimed shows
//! as a test `not_claimed_...`.
//!
//! # What the suite asks of the store it runs on
//!
//! - Most rules give the time of each call, from 2025 to about 2040, and let it stand still, jump
//!   and go back. While a time is given, a store must not let its own clock free a state during the
//!   test: a TTL gets a minute or more on top. What a store does by its own clock alone is held to
//!   by `lifetime`.
//! - A store that cleans up as it answers is built so that it does not: a clean at a time ahead is
//!   remembered when the time goes back.
//! - Several keys in one call have one tag ([`Tagged`](tollgate::Tagged)), so that clusters can
//!   decide them.
//! - Deadlines are ten seconds, but in `outage`.
//!
//! Random rules print the seed of what failed: set [`TOLLGATE_TESTKIT_SEED`](SEED) to run it again,
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
//! - [`a_peek_changes_nothing`](rules::denied::a_peek_changes_nothing): nor does it push an elastic
//!   window
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
//!   the same the other way
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
//!   alike in all but one thing
//! - [`a_limit_is_one_counter_alone_and_in_policies`](rules::keys::a_limit_is_one_counter_alone_and_in_policies):
//!   one counter for one limit
//! - [`a_changed_quota_keeps_the_counters_of_a_named_limit`](rules::keys::a_changed_quota_keeps_the_counters_of_a_named_limit):
//!   raised and lowered between calls
//!
//! Several at once:
//!
//! - [`all_keys_are_charged_or_none`](rules::together::all_keys_are_charged_or_none): twenty keys
//!   in one call
//! - [`a_policy_charges_each_limit_once_or_none`](rules::together::a_policy_charges_each_limit_once_or_none):
//!   and gives all back
//! - [`a_denial_charges_the_limits_that_charge_denied`](rules::together::a_denial_charges_the_limits_that_charge_denied):
//!   and no others
//! - [`many_keys_are_hit_each_on_its_own`](rules::together::many_keys_are_hit_each_on_its_own):
//!   keys that come twice included
//! - [`requests_without_sense_are_errors`](rules::together::requests_without_sense_are_errors): and
//!   charge nothing
//!
//! Callers at once:
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
//!   that share limits
//! - [`concurrent_groups_never_pass_a_limit`](rules::concurrent::concurrent_groups_never_pass_a_limit):
//!   of keys in different orders
//!
//! Remembered denials:
//!
//! - [`a_remembered_denial_answers_as_the_store_would`](rules::denials::a_remembered_denial_answers_as_the_store_would):
//!   until the very microsecond at which it ends
//! - [`a_smaller_cost_is_not_denied_from_memory`](rules::denials::a_smaller_cost_is_not_denied_from_memory):
//!   it may fit
//! - [`a_remembered_denial_knows_of_later_charges`](rules::denials::a_remembered_denial_knows_of_later_charges):
//!   those of this process
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
//! - [`fresh_keys_take_no_room`](rules::lifetime::fresh_keys_take_no_room): looked at, refused,
//!   given back
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
//! - [`a_mended_store_answers_again`](rules::outage::a_mended_store_answers_again): by itself
//! - [`an_unavailable_call_was_not_executed`](rules::outage::an_unavailable_call_was_not_executed):
//!   what may have been is `Lost`

mod beside;
mod conformance;
mod executor;
mod ground;
mod model;
#[doc(hidden)]
pub mod not_claimed;
mod random;
pub mod rules;
mod sequence;
mod subject;
pub mod vectors;

pub use executor::block_on;
pub use random::{CASES, Random, SEED};
pub use subject::{Kept, OneStore, Subject};

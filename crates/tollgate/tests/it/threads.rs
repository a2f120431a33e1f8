//! Tests with real threads: totals must be exact under contention. The checks are generic over the
//! store and return errors instead of panicking, so that they can also run on a store with a
//! planted race, which they must detect.

use std::sync::Barrier;
use std::thread;

use tollgate::{ManualClock, SystemClock};

use crate::stores::{AtomicSubject, MemorySubject, START, Settings, Subject};

mod checks;
mod churn;
mod groups;
mod permits;
mod planted;

/// Runs `f` on this many threads concurrently, and returns their results. Threads are joined by
/// their handles, because the thread sanitizer does not see that the end of a scope joins them.
pub(crate) fn on_threads<T: Send>(count: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(count);
    thread::scope(|scope| {
        let run = |index| {
            let (f, barrier) = (&f, &barrier);
            scope.spawn(move || {
                barrier.wait();
                f(index)
            })
        };
        let handles: Vec<_> = (0..count).map(run).collect();
        let join = |handle: thread::ScopedJoinHandle<'_, T>| match handle.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).collect()
    })
}

/// Returns a store with a clock that stands still.
pub(crate) fn still<S: Subject>() -> S {
    S::build(Settings::new(ManualClock::new(START)))
}

/// The result of a check. The error describes what was wrong.
pub(crate) type Checked = Result<(), String>;

#[expect(clippy::needless_pass_by_value, reason = "the arguments are those of assert_eq")]
pub(crate) fn expect_equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: T,
    wanted: T,
) -> Checked {
    if got == wanted { Ok(()) } else { Err(format!("{what}: {got:?} instead of {wanted:?}")) }
}

fn holds(checked: Checked) {
    if let Err(found) = checked {
        panic!("{found}");
    }
}

/// Defines one test for each check, for each store.
macro_rules! threads {
    ($($name:ident: $store:ty),+ $(,)?) => {
        $(mod $name {
            use super::*;

            #[test]
            fn one_key_admits_exactly_the_limit() {
                holds(checks::one_key_admits_exactly_the_limit::<$store>());
            }

            #[test]
            fn a_fresh_key_with_a_limit_of_one_admits_exactly_one_hit() {
                holds(checks::a_fresh_key_with_a_limit_of_one_admits_exactly_one_hit::<$store>());
            }

            #[test]
            fn the_usage_is_exact_after_concurrent_hits_and_refunds() {
                holds(checks::the_usage_is_exact_after_concurrent_hits_and_refunds::<$store>());
            }

            #[test]
            fn takes_get_exactly_the_limit_in_total() {
                holds(checks::takes_get_exactly_the_limit_in_total::<$store>());
            }

            #[test]
            fn no_key_is_lost_while_a_store_grows() {
                holds(checks::no_key_is_lost_while_a_store_grows::<$store>(100_000));
            }

            #[test]
            fn no_hit_is_lost_while_a_thread_cleans() {
                holds(churn::no_hit_is_lost_while_a_thread_cleans::<$store>());
            }

            #[test]
            fn windows_admit_at_most_the_limit_while_keys_expire() {
                for period in [1, 20] {
                    let (clock, advance) = churn::with_manual_clock();
                    holds(churn::windows_admit_at_most_the_limit::<$store>(clock, period, advance));
                }
            }

            #[test]
            fn windows_admit_at_most_the_limit_by_the_system_clock() {
                for period in [1, 5] {
                    holds(churn::windows_admit_at_most_the_limit::<$store>(
                        Settings::new(SystemClock::new()),
                        period,
                        || {},
                    ));
                }
            }

            #[test]
            fn policies_never_exceed_any_of_their_limits() {
                holds(groups::policies_never_exceed_any_of_their_limits::<$store>());
            }

            #[test]
            fn groups_in_different_orders_never_exceed_a_limit() {
                holds(groups::groups_in_different_orders_never_exceed_a_limit::<$store>());
            }

            #[test]
            fn a_limit_that_is_prepared_repeatedly_has_one_counter() {
                holds(checks::a_limit_that_is_prepared_repeatedly_has_one_counter::<$store>());
            }

            #[test]
            fn each_reset_or_clear_amid_hits_admits_at_most_one_more_limit() {
                holds(checks::each_reset_or_clear_amid_hits_admits_at_most_one_more_limit::<$store>());
            }

            #[test]
            fn a_key_that_gets_a_slot_gets_no_additional_units() {
                holds(checks::a_key_that_gets_a_slot_gets_no_additional_units::<$store>());
            }

            #[test]
            fn the_bound_on_keys_holds_for_new_keys_from_many_threads() {
                holds(checks::the_bound_on_keys_holds_for_new_keys_from_many_threads::<$store>());
            }
        })+
    };
}

threads! {
    memory: MemorySubject,
    atomic: AtomicSubject,
}

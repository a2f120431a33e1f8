//! Real threads: exact totals under contention. The checks are generic over the store and return
//! what they found, so that a store with a planted race proves that they can detect one.

use std::sync::Barrier;
use std::thread;

use tollgate::{ManualClock, SystemClock};

use crate::stores::{AtomicSubject, MemorySubject, START, Settings, Subject};

mod checks;
mod churn;
mod groups;
mod planted;

/// Runs `f` on this many threads concurrently, and returns their results. Threads are joined by
/// their handles: the end of a scope alone does not tell a sanitizer that a thread has ended.
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

/// A store whose clock stands still.
pub(crate) fn still<S: Subject>() -> S {
    S::build(Settings::new(ManualClock::new(START)))
}

/// The result of a check: an error says what was found.
pub(crate) type Checked = Result<(), String>;

#[expect(clippy::needless_pass_by_value, reason = "arguments as of assert_eq")]
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

/// One test for each check, for each store.
macro_rules! threads {
    ($($name:ident: $store:ty),+ $(,)?) => {
        $(mod $name {
            use super::*;

            #[test]
            fn one_key_admits_exactly_the_limit() {
                holds(checks::one_key_admits_exactly_the_limit::<$store>());
            }

            #[test]
            fn fresh_keys_admit_exactly_one() {
                holds(checks::fresh_keys_admit_exactly_one::<$store>());
            }

            #[test]
            fn refunds_amid_hits_leave_an_exact_count() {
                holds(checks::refunds_amid_hits_leave_an_exact_count::<$store>());
            }

            #[test]
            fn takes_share_out_exactly_the_limit() {
                holds(checks::takes_share_out_exactly_the_limit::<$store>());
            }

            #[test]
            fn growing_loses_nothing() {
                holds(checks::growing_loses_nothing::<$store>(100_000));
            }

            #[test]
            fn cleaning_loses_nothing() {
                holds(churn::cleaning_loses_nothing::<$store>());
            }

            #[test]
            fn windows_stay_bounded_while_keys_go_stale() {
                for period in [1, 20] {
                    let (clock, advance) = churn::moved_by_hand();
                    holds(churn::windows_stay_bounded::<$store>(clock, period, advance));
                }
            }

            #[test]
            fn windows_stay_bounded_by_the_system_clock() {
                for period in [1, 5] {
                    holds(churn::windows_stay_bounded::<$store>(
                        Settings::new(SystemClock::new()),
                        period,
                        || {},
                    ));
                }
            }

            #[test]
            fn policies_never_pass_any_of_their_limits() {
                holds(groups::policies_never_pass_any_of_their_limits::<$store>());
            }

            #[test]
            fn crossing_groups_never_pass_a_limit() {
                holds(groups::crossing_groups_never_pass_a_limit::<$store>());
            }

            #[test]
            fn limits_prepared_again_and_again_stay_one_counter() {
                holds(checks::limits_prepared_again_and_again_stay_one_counter::<$store>());
            }

            #[test]
            fn forgetting_amid_hits_gives_at_most_the_limit_each_time() {
                holds(checks::forgetting_amid_hits_gives_at_most_the_limit_each_time::<$store>());
            }

            #[test]
            fn a_slot_that_comes_free_gives_no_unit() {
                holds(checks::a_slot_that_comes_free_gives_no_unit::<$store>());
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

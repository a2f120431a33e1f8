//! The macro that makes tests of the rules.

/// All rules as tests of a store, in a module of that name: `conformance!(name, || subject)`. The subject is made anew for each test.
///
/// See the example at the top of the crate.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $make:expr $(,)?) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::conformance! { @rules $make;
                vectors::{vectors_are_answered_as_written}
                concurrent::{concurrent_callers_admit_exactly_the_limit}
                keys::{different_keys_never_share_a_counter}
                sequences::{
                    random_sequences_equal_the_definition,
                    random_sequences_through_limiters_equal_the_definition,
                }
            }
        }
    };
    (@rules $make:expr; $($module:ident::{$($rule:ident),+ $(,)?})+) => {
        $($(#[test]
        fn $rule() {
            $crate::rules::$module::$rule(&($make)());
        })+)+
    };
}

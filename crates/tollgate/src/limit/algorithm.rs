//! The names of the algorithms.

use std::fmt;

use super::{Description, Rate};
use crate::algorithm::{Machine, for_each_algorithm};

macro_rules! names {
    ($($_group:ident { $(
        $(#[$meta:meta])*
        $name:ident = $number:literal, $text:literal, $module:ident::$_state:ident;
    )+ })+) => {
        /// The rule by which hits are counted. The guide "choose an algorithm" helps to choose;
        /// every module in [`crate::algorithm`] explains its algorithm.
        ///
        /// ```
        /// use tollgate::Algorithm;
        /// assert_eq!(Algorithm::default(), Algorithm::Gcra);
        /// assert_eq!(Algorithm::TokenBucket.to_string(), "token-bucket");
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Algorithm {
            $($($(#[$meta])* $name = $number,)+)+
        }

        const COUNT: usize = [$($($text),+),+].len();
        const PERIODIC_COUNT: usize =
            0 $($(+ crate::algorithm::$module::$name::IS_PERIODIC as usize)+)+;

        impl Algorithm {
            /// All algorithms, in the order of the documentation.
            ///
            /// ```
            /// assert_eq!(tollgate::Algorithm::ALL.len(), 12);
            /// ```
            pub const ALL: [Algorithm; COUNT] = by_number([$($(Algorithm::$name),+),+]);

            /// The algorithms that count a quota per period, in the order of the documentation.
            /// Each of them can be used with any period.
            ///
            /// ```
            /// use tollgate::{Algorithm, Limit};
            /// for algorithm in Algorithm::PERIODIC {
            ///     assert!(Limit::per_minute(5).algorithm(algorithm).build().is_ok());
            /// }
            /// ```
            pub const PERIODIC: [Algorithm; PERIODIC_COUNT] = {
                let mut periodic = [Algorithm::Gcra; PERIODIC_COUNT];
                let (mut found, mut index) = (0, 0);
                while index < COUNT {
                    if Algorithm::ALL[index].is_periodic() {
                        periodic[found] = Algorithm::ALL[index];
                        found += 1;
                    }
                    index += 1;
                }
                periodic
            };

            /// Returns the name in text, configuration and identities.
            ///
            /// ```
            /// assert_eq!(tollgate::Algorithm::Gcra.as_str(), "gcra");
            /// ```
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Algorithm::$name => $text,)+)+
                }
            }

            /// Returns true for the algorithms that have a burst: token bucket, leaky bucket and
            /// GCRA.
            ///
            /// ```
            /// assert!(!tollgate::Algorithm::FixedWindow.has_burst());
            /// ```
            #[must_use]
            pub const fn has_burst(self) -> bool {
                match self {
                    $($(Algorithm::$name => crate::algorithm::$module::$name::HAS_BURST,)+)+
                }
            }

            /// Returns true for the algorithms that count a quota per period of any length.
            ///
            /// ```
            /// assert!(tollgate::Algorithm::FixedWindow.is_periodic());
            /// ```
            #[must_use]
            pub const fn is_periodic(self) -> bool {
                match self {
                    $($(Algorithm::$name => crate::algorithm::$module::$name::IS_PERIODIC,)+)+
                }
            }

            /// Returns true for the algorithms that can count denied hits: the windows that have
            /// one counter.
            ///
            /// ```
            /// assert!(tollgate::Algorithm::FixedWindow.can_charge_denied());
            /// ```
            #[must_use]
            pub const fn can_charge_denied(self) -> bool {
                match self {
                    $($(
                        Algorithm::$name => crate::algorithm::$module::$name::CAN_CHARGE_DENIED,
                    )+)+
                }
            }

            pub(super) fn describe(self, rate: Rate) -> Description {
                match self {
                    $($(Algorithm::$name => crate::algorithm::$module::$name::describe(rate),)+)+
                }
            }
        }
    };
}

for_each_algorithm!(names);

/// Sorts algorithms by their numbers, which may have gaps.
const fn by_number(mut all: [Algorithm; COUNT]) -> [Algorithm; COUNT] {
    let mut sorted = 0;
    while sorted < COUNT {
        let mut next = sorted;
        while next > 0 && (all[next - 1] as u8) > (all[next] as u8) {
            (all[next - 1], all[next]) = (all[next], all[next - 1]);
            next -= 1;
        }
        sorted += 1;
    }
    all
}

impl Algorithm {
    /// Returns the number of the algorithm in stored states and in the functions of PostgreSQL. A
    /// number is never reused for another algorithm.
    ///
    /// ```
    /// assert_eq!(tollgate::Algorithm::Gcra.number(), 8);
    /// ```
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Lists the names of some algorithms for a sentence: "token-bucket, leaky-bucket and gcra".
    pub(crate) fn list(conjunction: &str, belongs: fn(Algorithm) -> bool) -> String {
        let names: Vec<_> =
            Algorithm::ALL.into_iter().filter(|one| belongs(*one)).map(Algorithm::as_str).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} {conjunction} {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

//! States as plain words, for stores that keep them compactly.

use super::{elastic_window, fixed_window, fixed_window_per_key, gcra, level, sliding_window};
use crate::time::Timestamp;

/// A state that is two or three 64-bit words.
pub(crate) trait Words: Copy {
    type Words: Copy;

    fn to_words(self) -> Self::Words;
    fn from_words(words: Self::Words) -> Self;
}

macro_rules! words {
    ($state:ty, [$($word:ident),+], $count:literal, $from:expr, $to:expr) => {
        impl Words for $state {
            type Words = [u64; $count];

            #[inline]
            fn to_words(self) -> [u64; $count] {
                let to: fn($state) -> [u64; $count] = $to;
                to(self)
            }

            #[inline]
            fn from_words([$($word),+]: [u64; $count]) -> Self {
                $from
            }
        }
    };
}

words!(fixed_window::FixedWindowState, [window, count], 2, Self { window, count }, |s| [
    s.window, s.count
]);
words!(
    fixed_window_per_key::FixedWindowPerKeyState,
    [start, count],
    2,
    Self { start: Timestamp::from_micros(start), count },
    |s| [s.start.as_micros(), s.count]
);
words!(
    elastic_window::ElasticWindowState,
    [expiry, count],
    2,
    Self { expiry: Timestamp::from_micros(expiry), count },
    |s| [s.expiry.as_micros(), s.count]
);
words!(gcra::GcraState, [tat, part], 2, Self { tat: Timestamp::from_micros(tat), part }, |s| [
    s.tat.as_micros(),
    s.part
]);
words!(
    sliding_window::SlidingWindowState,
    [start, previous, current],
    3,
    Self { start: Timestamp::from_micros(start), previous, current },
    |s| [s.start.as_micros(), s.previous, s.current]
);
words!(
    level::LevelState,
    [time, high, low],
    3,
    Self { time: Timestamp::from_micros(time), level: u128::from(high) << 64 | u128::from(low) },
    |s| [s.time.as_micros(), (s.level >> 64) as u64, s.level as u64]
);

//! States as plain 64-bit words, for stores that keep them compactly.

/// A state that is two or three 64-bit words.
pub(crate) trait Words: Copy {
    type Words: Copy + AsRef<[u64]>;

    fn to_words(self) -> Self::Words;
    fn from_words(words: Self::Words) -> Self;
}

/// Implements [`Words`] for a state. The arguments are the state, the names and the number of its
/// words, and the expressions that read and write it.
macro_rules! words {
    ($state:ty, [$($word:ident),+], $count:literal, $from:expr, $to:expr) => {
        impl $crate::algorithm::Words for $state {
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
pub(crate) use words;

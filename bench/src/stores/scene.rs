//! The numbers of callers and keys.

use std::sync::Arc;

/// The number of callers in scenes with many, and the number of keys in scenes with many. There are
/// more keys than callers, so that two callers seldom want the same, and few enough that a round
/// uses most of them.
pub(crate) const CALLERS: usize = 64;
pub(crate) const KEYS: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scene {
    pub(crate) callers: usize,
    pub(crate) keys: usize,
}

impl Scene {
    pub(crate) const ONE_HOT: Scene = Scene { callers: 1, keys: 1 };
    pub(crate) const ONE_MANY: Scene = Scene { callers: 1, keys: KEYS };
    pub(crate) const ALL_HOT: Scene = Scene { callers: CALLERS, keys: 1 };
    pub(crate) const ALL_MANY: Scene = Scene { callers: CALLERS, keys: KEYS };
    pub(crate) const ALL: [Scene; 4] =
        [Scene::ONE_HOT, Scene::ONE_MANY, Scene::ALL_HOT, Scene::ALL_MANY];

    pub(crate) fn title(self) -> &'static str {
        match (self.callers, self.keys) {
            (1, 1) => "One caller, hot key",
            (1, _) => "One caller, 1,000 keys",
            (_, 1) => "64 callers, hot key",
            _ => "64 callers, 1,000 keys",
        }
    }

    /// Every hit is allowed, and the next one finds a state that is not fresh: the arrival time
    /// stays ahead of the clock.
    pub(crate) fn limit(self) -> &'static str {
        if self.keys == 1 { "1000/second burst=1000000000" } else { "1/second burst=1000000" }
    }

    pub(crate) fn subjects(self) -> Arc<[String]> {
        (0..self.keys).map(|number| format!("user:{number:012}")).collect()
    }
}

/// One of the keys; spread so that neighbours in time are not neighbours in name.
pub(crate) fn spread(number: usize, keys: usize) -> usize {
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24) % keys
}

//! The contenders, behind one trait, so that every scenario treats all alike.

mod floor;
mod ours;
mod peers;

use crate::Outcome;
use crate::tail::Tail;
use std::hint::black_box;
use std::time::Duration;

/// A key as the walks hand it out. governor looks up by `&K`, so an owned string must exist.
pub(crate) type Key = String;

/// A limiter under test.
///
/// `walk` and `walk_timed` are default methods on purpose: they are compiled once per contender, so
/// the loop calls `hit` directly and a `dyn Contender` costs one indirect call per walk.
pub(crate) trait Contender: Sync {
    /// One hit of cost 1. Returns whether it was allowed.
    fn hit(&self, key: &Key) -> bool;

    /// Hits every key in order. Returns how many were allowed.
    fn walk(&self, keys: &[Key]) -> usize {
        keys.iter().filter(|key| self.hit(key)).count()
    }

    /// Hits every key in order and records the duration of each call.
    fn walk_timed(&self, keys: &[Key], tail: &mut Tail) {
        let mut start = tail.now();
        for key in keys {
            black_box(self.hit(key));
            start = tail.record(start);
        }
    }

    /// Removes stale keys by the contender's own means. `keys` are the stale ones, for a contender
    /// that can only remove given keys.
    fn clean(&self, keys: &[Key]);

    /// The number of its keys, if it can tell.
    fn len(&self) -> Option<usize> {
        None
    }
}

/// How a contender gets rid of stale keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Never, or only by a bound on their number.
    Never,
    /// When the cleaning function is called.
    OnCall,
    /// Within hits, without a call.
    Itself,
}

/// The limit and the housekeeping a contender is built with.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) quota: u32,
    pub(crate) period: Duration,
    pub(crate) burst: u32,
    /// The interval of sweeps of a contender that sweeps by itself; `None` uses its default.
    pub(crate) sweep_every: Option<Duration>,
}

/// One key, hit a hundred million times a second: never fresh again, never denied.
pub(crate) const HOT: Load = Load {
    quota: 1_000_000,
    period: Duration::from_secs(1),
    burst: 1_000_000_000,
    sweep_every: None,
};

/// Many keys: one hit keeps a state alive for ten seconds, longer than a round takes, so no store
/// may treat the keys as gone. The burst is for the most frequent key of the zipf walks, 140,000
/// hits a round; a larger one would be over half a year of debt, which no real limit has and for
/// which Atomic takes wider cells.
pub(crate) const LIVE: Load =
    Load { quota: 6, period: Duration::from_secs(60), burst: 1_500_000, sweep_every: None };

/// Keys that are stale soon after a hit.
pub(crate) const SHORT: Load =
    Load { quota: 2, period: Duration::from_secs(1), burst: 4, sweep_every: None };

/// The same, swept by the store itself. After [`STALE_AFTER`] without a call a sweep is due.
pub(crate) const SHORT_SWEPT: Load = Load { sweep_every: Some(Duration::from_secs(2)), ..SHORT };

/// After this long every state of [`SHORT`] is stale, throttlecrab's too, which keeps a state for
/// the whole burst longer.
pub(crate) const STALE_AFTER: Duration = Duration::from_secs(3);

/// A contender and how to run it.
pub(crate) struct Spec {
    /// Name on the command line of a child.
    pub(crate) id: &'static str,
    /// Name in tables.
    pub(crate) title: &'static str,
    /// The crate whose version is read from Cargo.lock.
    pub(crate) package: Option<&'static str>,
    pub(crate) build: fn(&Load) -> Outcome<Box<dyn Contender>>,
    /// A walk is cut to this part of its keys: slow contenders need fewer calls for a steady
    /// figure.
    pub(crate) part: usize,
    pub(crate) sweep: Sweep,
    /// False for contenders that store no keys or differ from another one only in how they are
    /// called.
    pub(crate) stores_keys: bool,
}

impl Spec {
    pub(crate) fn is_ours(&self) -> bool {
        self.package == Some("tollgate")
    }

    pub(crate) fn is_peer(&self) -> bool {
        self.package.is_some() && !self.is_ours()
    }

    /// The part of `keys` this contender walks.
    pub(crate) fn cut<'a>(&self, keys: &'a [Key]) -> &'a [Key] {
        keys.get(..keys.len() / self.part).unwrap_or(keys)
    }
}

pub(crate) const GOVERNOR: &str = "governor";
pub(crate) const MEMORY: &str = "memory";
pub(crate) const ATOMIC: &str = "atomic";
pub(crate) const ATOMIC_EACH: &str = "atomic-each";

/// All contenders, in the order of the tables.
pub(crate) const ALL: &[Spec] = &[
    Spec {
        id: GOVERNOR,
        title: "governor",
        package: Some("governor"),
        build: peers::governor,
        part: 1,
        sweep: Sweep::OnCall,
        stores_keys: true,
    },
    Spec {
        id: "rate-net",
        title: "rate-net",
        package: Some("rate-net"),
        build: peers::rate_net,
        part: 1,
        sweep: Sweep::Itself,
        stores_keys: true,
    },
    Spec {
        id: "quota",
        title: "quota",
        package: Some("quota"),
        build: peers::quota,
        part: 1,
        sweep: Sweep::OnCall,
        stores_keys: true,
    },
    Spec {
        id: "throttlecrab",
        title: "throttlecrab, in a Mutex",
        package: Some("throttlecrab"),
        build: peers::throttlecrab,
        part: 1,
        sweep: Sweep::Itself,
        stores_keys: true,
    },
    Spec {
        id: "limitador",
        title: "limitador, memory",
        package: Some("limitador"),
        build: peers::limitador,
        part: 10,
        sweep: Sweep::Never,
        stores_keys: true,
    },
    Spec {
        id: MEMORY,
        title: "tollgate Memory",
        package: Some("tollgate"),
        build: ours::memory,
        part: 1,
        sweep: Sweep::Itself,
        stores_keys: true,
    },
    Spec {
        id: ATOMIC,
        title: "tollgate Atomic",
        package: Some("tollgate"),
        build: ours::atomic,
        part: 1,
        sweep: Sweep::Itself,
        stores_keys: true,
    },
    Spec {
        id: ATOMIC_EACH,
        title: "tollgate Atomic, 16 keys a call",
        package: Some("tollgate"),
        build: ours::atomic_each,
        part: 1,
        sweep: Sweep::Itself,
        stores_keys: false,
    },
    Spec {
        id: "floor",
        title: "floor: clock, hash, one CAS",
        package: None,
        build: floor::floor,
        part: 1,
        sweep: Sweep::Never,
        stores_keys: false,
    },
];

/// The timing alone: a loop without calls.
pub(crate) const CONTROL: Spec = Spec {
    id: "control",
    title: "control: only the timing",
    package: None,
    build: floor::control,
    part: 1,
    sweep: Sweep::Never,
    stores_keys: false,
};

/// The contender of that name.
pub(crate) fn find(id: &str) -> Outcome<&'static Spec> {
    ALL.iter().chain([&CONTROL]).find(|spec| spec.id == id).ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|spec| spec.id).collect();
        format!("contender `{id}`: must be one of {}", known.join(", ")).into()
    })
}

//! The contenders of the matrix: the peers that are faster than others, and tollgate's stores.

use super::cells::CellLimit;
use super::keys::CellKey;
use crate::Outcome;
use governor::DefaultKeyedRateLimiter;
use quota::{QuotaPolicy, QuotaPool, RefillRate};
use std::num::NonZeroU32;
use tollgate::{Atomic, Limit, Limiter, Memory, Store};

pub(crate) const GOVERNOR: usize = 0;
pub(crate) const PEERS: usize = 3;
pub(crate) const MEMORY: usize = 3;
pub(crate) const ATOMIC: usize = 4;

/// In the order of the columns: first the peers.
pub(crate) const TITLES: [&str; 5] = ["governor", "rate-net", "quota", "Memory", "Atomic"];

/// A limiter under test. `walk` is compiled once per contender and key type, so a `dyn Contender`
/// costs one indirect call per walk.
pub(crate) trait Contender<K>: Sync {
    /// One hit of cost 1. Returns whether it was allowed.
    fn hit(&self, key: &K) -> bool;

    /// Hits every key in order. Returns how many were allowed.
    fn walk(&self, keys: &[K]) -> usize {
        keys.iter().filter(|key| self.hit(key)).count()
    }

    /// Walks so many times.
    fn walk_again(&self, keys: &[K], times: usize) -> usize {
        (0..times).map(|_| self.walk(keys)).sum()
    }
}

/// The contender of this number for so many keys.
pub(crate) fn build<K: CellKey>(
    number: usize,
    limit: &CellLimit,
    keys: usize,
) -> Outcome<Box<dyn Contender<K>>> {
    let burst = NonZeroU32::new(limit.burst).ok_or("burst 0: must be at least 1")?;
    Ok(match number {
        GOVERNOR => {
            let quota = governor::Quota::with_period(limit.period / limit.quota)
                .ok_or("period 0 ns a hit: must be at least 1 ns")?;
            let limiter: DefaultKeyedRateLimiter<K> =
                governor::RateLimiter::dashmap(quota.allow_burst(burst));
            Box::new(limiter)
        }
        1 => {
            // The bound is out of reach: at the bound rate-net would evict instead of growing.
            let limiter = rate_net::RateLimiter::builder()
                .quota(limit.quota, limit.period)
                .burst(limit.burst)
                .eviction(rate_net::Eviction::capacity(4 * keys.max(1_000)))
                .try_build()?;
            Box::new(limiter)
        }
        2 => {
            let rate = f64::from(limit.quota) / limit.period.as_secs_f64();
            let policy = QuotaPolicy::new()
                .set_capacity(f64::from(limit.burst))
                .set_refill_rate(RefillRate::per_sec(rate));
            Box::new(QuotaPool::<K>::with_key_type(policy, limit.burst.into()))
        }
        MEMORY => {
            let store = Memory::builder().max_keys(2 * keys).build();
            Box::new(store.limiter(limit.text.parse::<Limit>()?)?)
        }
        _ => {
            let store = Atomic::builder().max_keys(2 * keys).build();
            Box::new(store.limiter(limit.text.parse::<Limit>()?)?)
        }
    })
}

impl<K: CellKey> Contender<K> for DefaultKeyedRateLimiter<K> {
    fn hit(&self, key: &K) -> bool {
        self.check_key(key).is_ok()
    }
}

impl<K: CellKey> Contender<K> for rate_net::RateLimiter {
    fn hit(&self, key: &K) -> bool {
        key.hit_rate_net(self)
    }
}

impl<K: CellKey> Contender<K> for QuotaPool<K> {
    fn hit(&self, key: &K) -> bool {
        self.check(key, 1)
    }
}

impl<K: CellKey, S: Store> Contender<K> for Limiter<S> {
    fn hit(&self, key: &K) -> bool {
        Limiter::hit(self, key.ours()).allowed()
    }
}

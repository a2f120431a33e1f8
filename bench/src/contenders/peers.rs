//! The other crates, each used as its documentation says for speed.

use super::{Contender, Key, Load};
use crate::{KEYS, Outcome};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

struct Governor(governor::DefaultKeyedRateLimiter<Key>);

pub(super) fn governor(load: &Load) -> Outcome<Box<dyn Contender>> {
    let burst = NonZeroU32::new(load.burst).ok_or("burst 0: must be at least 1")?;
    let quota = governor::Quota::with_period(load.period / load.quota)
        .ok_or("period 0 ns a hit: must be at least 1 ns")?
        .allow_burst(burst);
    Ok(Box::new(Governor(governor::RateLimiter::dashmap(quota))))
}

impl Contender for Governor {
    fn hit(&self, key: &Key) -> bool {
        self.0.check_key(key).is_ok()
    }

    fn clean(&self, _: &[Key]) {
        self.0.retain_recent();
    }

    fn len(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct RateNet(rate_net::RateLimiter);

pub(super) fn rate_net(load: &Load) -> Outcome<Box<dyn Contender>> {
    // The bound is out of reach: at the bound rate-net would evict instead of growing.
    let mut eviction = rate_net::Eviction::capacity(4 * KEYS);
    if let Some(idle) = load.sweep_every {
        eviction = eviction.with_idle(idle);
    }
    let limiter = rate_net::RateLimiter::builder()
        .quota(load.quota, load.period)
        .burst(load.burst)
        .eviction(eviction)
        .try_build()?;
    Ok(Box::new(RateNet(limiter)))
}

impl Contender for RateNet {
    fn hit(&self, key: &Key) -> bool {
        self.0.check_bytes(key).is_allow()
    }

    fn clean(&self, _: &[Key]) {
        self.0.retain_recent();
    }

    fn len(&self) -> Option<usize> {
        Some(self.0.tracked_keys())
    }
}

struct Quota(quota::QuotaPool);

pub(super) fn quota(load: &Load) -> Outcome<Box<dyn Contender>> {
    let rate = f64::from(load.quota) / load.period.as_secs_f64();
    let policy = quota::QuotaPolicy::new()
        .set_capacity(f64::from(load.burst))
        .set_refill_rate(quota::RefillRate::per_sec(rate));
    Ok(Box::new(Quota(quota::QuotaPool::new(policy, u64::from(load.burst)))))
}

impl Contender for Quota {
    fn hit(&self, key: &Key) -> bool {
        self.0.check(key.as_str(), 1)
    }

    /// It has no sweep, and removed entries are freed only when the pool is dropped.
    fn clean(&self, keys: &[Key]) {
        for key in keys {
            self.0.remove(key.as_str());
        }
    }

    fn len(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// Longer than a measurement that is not about sweeping.
const SELDOM: Duration = Duration::from_secs(3600);

struct Throttlecrab {
    limiter: Mutex<throttlecrab::RateLimiter<throttlecrab::PeriodicStore>>,
    load: Load,
}

/// Its periodic store, because the adaptive one walks all keys at every call once it is three
/// quarters full.
pub(super) fn throttlecrab(load: &Load) -> Outcome<Box<dyn Contender>> {
    let store = throttlecrab::PeriodicStore::builder()
        .capacity(KEYS)
        .cleanup_interval(load.sweep_every.unwrap_or(SELDOM))
        .build();
    let limiter = Mutex::new(throttlecrab::RateLimiter::new(store));
    Ok(Box::new(Throttlecrab { limiter, load: *load }))
}

impl Throttlecrab {
    #[expect(clippy::disallowed_methods, reason = "the time is an argument of throttlecrab's call")]
    fn hit_in(&self, key: &str, ahead: Duration) -> bool {
        let Load { quota, period, burst, .. } = self.load;
        let Ok(mut limiter) = self.limiter.lock() else { return false };
        let answer = limiter.rate_limit(
            key,
            burst.into(),
            quota.into(),
            period.as_secs().cast_signed(),
            1,
            SystemTime::now() + ahead,
        );
        answer.is_ok_and(|(allowed, _)| allowed)
    }
}

impl Contender for Throttlecrab {
    fn hit(&self, key: &Key) -> bool {
        self.hit_in(key, Duration::ZERO)
    }

    /// A call at a time when the sweep is due triggers it.
    fn clean(&self, _: &[Key]) {
        self.hit_in("clean", 2 * SELDOM);
    }
}

struct Limitador {
    limiter: limitador::RateLimiter,
    namespace: limitador::limit::Namespace,
}

pub(super) fn limitador(load: &Load) -> Outcome<Box<dyn Contender>> {
    let limiter = limitador::RateLimiter::new(4 * KEYS as u64);
    let key = limitador::limit::Expression::try_from("key")
        .map_err(|error| format!("expression `key`: {error:?}"))?;
    let seconds = load.period.as_secs() * u64::from(load.burst) / u64::from(load.quota);
    limiter.add_limit(limitador::limit::Limit::new("bench", load.burst.into(), seconds, [], [key]));
    Ok(Box::new(Limitador { limiter, namespace: "bench".into() }))
}

impl Contender for Limitador {
    fn hit(&self, key: &Key) -> bool {
        let context = HashMap::from([("key".to_owned(), key.clone())]).into();
        let answer = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1);
        answer.is_ok_and(|check| !check.limited)
    }

    /// There is nothing to call: counters are removed only when the cache is full.
    fn clean(&self, _: &[Key]) {}
}

//! tollgate's stores.

use super::{Contender, Key, Load};
use crate::Outcome;
use tollgate::{Atomic, Limit, Limiter, Memory, Store};

/// Keys in one call of `hit_each`, as a pipelined server has them.
const TOGETHER: usize = 16;

/// The methods of a store that the benchmarks need besides hits.
trait Kept: Store {
    fn open(load: &Load) -> Self;
    fn clean(&self);
    fn len(&self) -> usize;
}

macro_rules! kept {
    ($($store:ident),*) => {$(
        impl Kept for $store {
            fn open(load: &Load) -> Self {
                let builder = $store::builder();
                match load.sweep_every {
                    Some(period) => builder.clean_period(period).build(),
                    None => builder.build(),
                }
            }

            fn clean(&self) {
                $store::clean(self);
            }

            fn len(&self) -> usize {
                $store::len(self)
            }
        }
    )*};
}

kept!(Memory, Atomic);

/// One key a call.
struct Single<S: Store> {
    store: S,
    limiter: Limiter<S>,
}

impl<S: Kept> Single<S> {
    fn open(load: &Load) -> Outcome<Self> {
        let store = S::open(load);
        let limit = Limit::new(load.quota.into(), load.period).burst(load.burst.into());
        let limiter = Limiter::new(&store, "", limit)?;
        Ok(Self { store, limiter })
    }
}

pub(super) fn memory(load: &Load) -> Outcome<Box<dyn Contender>> {
    Ok(Box::new(Single::<Memory>::open(load)?))
}

pub(super) fn atomic(load: &Load) -> Outcome<Box<dyn Contender>> {
    Ok(Box::new(Single::<Atomic>::open(load)?))
}

impl<S: Kept> Contender for Single<S> {
    fn hit(&self, key: &Key) -> bool {
        self.limiter.hit(key).allowed()
    }

    fn clean(&self, _: &[Key]) {
        self.store.clean();
    }

    fn len(&self) -> Option<usize> {
        Some(self.store.len())
    }
}

/// Several keys a call.
struct Each(Single<Atomic>);

pub(super) fn atomic_each(load: &Load) -> Outcome<Box<dyn Contender>> {
    Ok(Box::new(Each(Single::open(load)?)))
}

impl Contender for Each {
    fn hit(&self, key: &Key) -> bool {
        self.0.hit(key)
    }

    fn walk(&self, keys: &[Key]) -> usize {
        let mut allowed = 0;
        for keys in keys.chunks(TOGETHER) {
            self.0.limiter.hit_each(keys, |_, decision| allowed += usize::from(decision.allowed()));
        }
        allowed
    }

    fn clean(&self, keys: &[Key]) {
        self.0.clean(keys);
    }
}

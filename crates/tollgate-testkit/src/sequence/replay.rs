//! Runs a case on a store and on the model side by side.

use std::collections::HashSet;
use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::shared::{Ask, HitItem, SharedLimiter, SharedStore, hit_all_shared};
use tollgate::{Error, Limit, Outcome, Policy, Receipt, Source, Timestamp};

use super::case::{Amount, Call, Case, LIMITS, On, What};
use super::compare::{Checked, equal, in_time, remembered};
use super::keys::{AnyKey, with_keys};
use crate::ground::{Ground, Limited, START, limit};
use crate::model::{Model, Share, headline, same};
use crate::subject::Subject;

/// How the calls reach the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Directly: only the store's own answers, at times that also go back.
    Store,
    /// Through limiters, as users call them: with remembered denials where the store has them, at
    /// times that only go forward.
    Limiters,
}

struct Replay<'s, S: Subject> {
    ground: Ground<'s, S>,
    way: Way,
    limits: Vec<Limit>,
    limiters: Vec<Limited<'s, S>>,
    prepared: Vec<<S::Store as SharedStore>::Prepared>,
    /// A policy of all limits of the case whose counters differ, with their indexes.
    policy: (SharedLimiter<S::Store>, Vec<usize>),
    model: Model,
    receipts: Vec<(On, Receipt)>,
    /// The charges of policies: the key and one receipt for each limit.
    charges: Vec<(usize, Vec<Receipt>)>,
}

/// Runs a case in its own namespace. The error is the first answer that differs.
pub(crate) fn replay<S: Subject>(on: &Ground<'_, S>, case: &Case, way: Way) -> Checked {
    let Some(mut replay) = Replay::new(on.fresh(), case, way) else { return Ok(()) };
    let (mut now, mut latest) = (START, START);
    for (index, (tick, call)) in case.calls.iter().enumerate() {
        let next = tick.from(now);
        now = match way {
            // Time goes back, but not to before something may have been forgotten.
            Way::Store if next < now => next.max(replay.model.forgotten_until(latest)).min(now),
            Way::Limiters => next.max(now),
            Way::Store => next,
        };
        latest = latest.max(now);
        replay.step(now, call).map_err(|why| {
            let limits: Vec<String> = replay.limits.iter().map(Limit::to_string).collect();
            format!("limits {limits:?}\ncall {index} at {now}: {call:?}\n{why}")
        })?;
    }
    Ok(())
}

impl<'s, S: Subject> Replay<'s, S> {
    fn new(ground: Ground<'s, S>, case: &Case, way: Way) -> Option<Self> {
        let of_index = |index: &usize| ground.limited(&limit(LIMITS[*index]));
        let mut limiters: Vec<_> = case.limits.iter().filter_map(of_index).collect();
        if way == Way::Limiters {
            // A denial remembered for one quota is not corrected when another quota of the same
            // name lets units leak.
            let mut seen = HashSet::new();
            limiters.retain(|limited| seen.insert(limited.limit().identity()));
        }
        let limits: Vec<Limit> = limiters.iter().map(|limited| limited.limit().clone()).collect();
        let prepare = |limit| ground.store.prepare(&ground.namespace, limit).ok();
        let prepared: Vec<_> = limits.iter().filter_map(prepare).collect();
        let model = Model::new(&limits);
        let first = |i: &usize| !(0..*i).any(|earlier| model.same_counter(earlier, *i));
        let of_policy: Vec<usize> = (0..limits.len()).filter(first).collect();
        let policy = Policy::new(of_policy.iter().map(|i| limits[*i].clone())).ok()?;
        let policy = (ground.policy(&policy)?, of_policy);
        let (receipts, charges) = (Vec::new(), Vec::new());
        Some(Replay { ground, way, limits, limiters, prepared, policy, model, receipts, charges })
    }

    /// The store may refuse some limits of the case. On the others, some calls would count further
    /// than the store can.
    fn can(&mut self, on: On, now: Timestamp, op: Op) -> bool {
        let Some(limit) = self.limits.get(on.limit) else { return false };
        let most = self.ground.subject.counts_to(limit);
        let units = match op {
            Op::Hit(units) | Op::Take(units) | Op::Charge(units) | Op::Set(units) => units,
            _ => 0,
        };
        let used = self.model.apply(on.limit, on.key, now, Op::Peek(0)).used();
        most == u64::MAX || used.saturating_add(units) <= most
    }

    fn step(&mut self, now: Timestamp, call: &Call) -> Checked {
        match call {
            Call::Each(asks) => {
                let op = |(on, what): &(On, What)| {
                    (on.limit < self.limits.len())
                        .then(|| (*on, what.op(self.model.capacity(on.limit))))
                };
                let asks: Vec<_> = asks.iter().filter_map(op).collect();
                self.each(now, &asks)
            }
            Call::Refund(index) => {
                let index = self.receipts.len().checked_sub(index + 1);
                let Some((on, receipt)) = index.map(|i| self.receipts[i]) else { return Ok(()) };
                self.each(now, &[(on, Op::Refund(receipt))])
            }
            Call::HitEach(limit, keys) => {
                let ask = |key: &usize| (On { limit: *limit, key: *key }, Op::Hit(1));
                self.hit_each(now, *limit, &keys.iter().map(ask).collect::<Vec<_>>())
            }
            Call::Together(items) => self.together(now, items),
            Call::Policy(key, amount) => self.policy_hit(now, *key, *amount),
            Call::PolicyEach(key, what) => self.policy_each(now, *key, *what),
            Call::PolicyRefund(index) => self.policy_refund(now, *index),
            Call::PolicyReset(key) => {
                let limits = self.policy.1.clone();
                let got = match self.way {
                    Way::Store => self.reset_in_store(now, &limits, *key),
                    Way::Limiters => self.run(self.policy.0.at(now).reset(AnyKey(*key))),
                };
                let each = |limit: &usize| self.model.reset(*limit, *key, now);
                let wanted = limits.iter().map(each).fold(false, |any, one| any | one);
                equal(in_time(got)?, wanted)
            }
            Call::Reset(on) if on.limit < self.limits.len() => {
                let got = match self.way {
                    Way::Store => self.reset_in_store(now, &[on.limit], on.key),
                    Way::Limiters => {
                        self.run(self.limiters[on.limit].inner.at(now).reset(AnyKey(on.key)))
                    }
                };
                equal(in_time(got)?, self.model.reset(on.limit, on.key, now))
            }
            Call::Usage(on) if on.limit < self.limits.len() => {
                let usage = self.limiters[on.limit].inner.at(now);
                let got = in_time(self.run(usage.usage(AnyKey(on.key))))?;
                equal(got, self.model.apply(on.limit, on.key, now, Op::Peek(1)).used())
            }
            Call::Clear(limit) if *limit < self.limits.len() => {
                let cleared = match self.way {
                    Way::Store => self.run(self.ground.store.clear(&self.prepared[*limit])),
                    Way::Limiters => self.run(self.limiters[*limit].inner.clear()),
                };
                in_time(cleared)?;
                self.model.clear(*limit);
                Ok(())
            }
            Call::Reset(_) | Call::Usage(_) | Call::Clear(_) => Ok(()),
        }
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.ground.run(future)
    }

    fn in_store(&self, now: Timestamp, asks: &[(On, Op)]) -> Result<Vec<Outcome>, Error> {
        let keys: Vec<AnyKey> = asks.iter().map(|(on, _)| AnyKey(on.key)).collect();
        let mut answer = None;
        with_keys(&keys, &mut |keys| {
            let ask = |(key, (on, op)): (&_, &(On, Op))| Ask {
                prepared: &self.prepared[on.limit],
                key: *key,
                op: *op,
            };
            let asks: Vec<_> = keys.iter().zip(asks).map(ask).collect();
            // The keys are dropped before the future is polled.
            answer = Some(self.ground.store.ask_each(&asks, Some(now), Duration::MAX));
        });
        self.run(async {
            match answer {
                Some(answer) => answer.await,
                None => Ok(Vec::new()),
            }
        })
    }

    fn hit_together_in_store(
        &self,
        now: Timestamp,
        shares: &[Share],
    ) -> Result<Vec<Outcome>, Error> {
        let keys: Vec<AnyKey> = shares.iter().map(|share| AnyKey(share.key)).collect();
        let mut answer = None;
        with_keys(&keys, &mut |keys| {
            let hit = |(key, share): (&_, &Share)| HitItem {
                prepared: &self.prepared[share.limit],
                key: *key,
                cost: share.cost,
            };
            let hits: Vec<_> = keys.iter().zip(shares).map(hit).collect();
            answer = Some(self.ground.store.ask_together(&hits, Some(now), Duration::MAX));
        });
        self.run(async {
            match answer {
                Some(answer) => answer.await,
                None => Ok(Vec::new()),
            }
        })
    }

    fn reset_in_store(&self, now: Timestamp, limits: &[usize], key: usize) -> Result<bool, Error> {
        let ask = |limit: &usize| (On { limit: *limit, key }, Op::Reset);
        let asks: Vec<_> = limits.iter().map(ask).collect();
        Ok(self.in_store(now, &asks)?.iter().any(Outcome::allowed))
    }

    /// The parts that one call may contain: those in one part of the store.
    fn in_one_lane(&self, asks: &[(On, Op)]) -> Vec<(On, Op)> {
        let lane = |(on, _): &(On, Op)| {
            let mut lane = 0;
            let prepared = &self.prepared[on.limit];
            with_keys(&[AnyKey(on.key)], &mut |key| {
                lane = self.ground.store.lane(prepared, key[0]);
            });
            lane
        };
        let Some(first) = asks.first().map(lane) else { return Vec::new() };
        asks.iter().filter(|ask| lane(ask) == first).copied().collect()
    }

    fn each(&mut self, now: Timestamp, asks: &[(On, Op)]) -> Checked {
        let mut asks = self.in_one_lane(asks);
        // The effect of the earlier parts of this call is not known yet: at most one of each
        // counter that cannot count without end.
        asks.retain(|(on, op)| self.can(*on, now, *op));
        if asks
            .iter()
            .any(|(on, _)| self.ground.subject.counts_to(&self.limits[on.limit]) < u64::MAX)
        {
            asks.truncate(1);
        }
        let got = match self.way {
            Way::Store => in_time(self.in_store(now, &asks))?,
            Way::Limiters => asks
                .iter()
                .map(|(on, op)| self.limiters[on.limit].apply(now, AnyKey(on.key), *op))
                .collect(),
        };
        self.compare_each(now, &asks, &got)
    }

    fn compare_each(&mut self, now: Timestamp, asks: &[(On, Op)], got: &[Outcome]) -> Checked {
        equal(got.len(), asks.len())?;
        for ((on, op), got) in asks.iter().zip(got) {
            let wanted = self.model.apply(on.limit, on.key, now, *op);
            if got.source() == Source::DenialCache {
                remembered(std::slice::from_ref(got), &[wanted])?;
            } else {
                same(std::slice::from_ref(got), &[wanted])?;
            }
            self.receipts.push((*on, wanted.receipt()));
        }
        Ok(())
    }

    fn hit_each(&mut self, now: Timestamp, limit: usize, asks: &[(On, Op)]) -> Checked {
        if limit >= self.limits.len() || !asks.iter().all(|(on, op)| self.can(*on, now, *op)) {
            return Ok(());
        }
        let keys: Vec<AnyKey> = asks.iter().map(|(on, _)| AnyKey(on.key)).collect();
        if self.way == Way::Store {
            return self.each(now, asks);
        }
        let got = in_time(self.run(self.limiters[limit].inner.at(now).hit_each(&keys)))?;
        let got: Vec<Outcome> = got.iter().map(|decision| *decision.headline()).collect();
        self.compare_each(now, asks, &got)
    }

    /// Only items of different counters. The others are errors, which another rule tests.
    fn together(&mut self, now: Timestamp, items: &[(On, Amount)]) -> Checked {
        let mut shares: Vec<Share> = Vec::new();
        for (on, amount) in items {
            let there = on.limit < self.limits.len();
            let twice = |s: &Share| s.key == on.key && self.model.same_counter(s.limit, on.limit);
            if there && !shares.iter().any(twice) {
                let cost = amount.of(self.model.capacity(on.limit));
                shares.push(Share { limit: on.limit, key: on.key, cost });
            }
        }
        if shares.is_empty() || !self.all_can(now, &shares) {
            return Ok(());
        }
        let got = match self.way {
            Way::Store => in_time(self.hit_together_in_store(now, &shares))?,
            Way::Limiters => {
                let item = |s: &Share| self.limiters[s.limit].inner.item(AnyKey(s.key), s.cost);
                let items: Vec<_> = shares.iter().map(item).collect();
                let all = in_time(self.run(hit_all_shared(&items, Some(now))))?;
                let waits = all.outcomes().iter().map(|d| d.retry_after().unwrap_or(Duration::MAX));
                equal(all.retry_after().unwrap_or(Duration::MAX), waits.max().unwrap_or_default())?;
                all.outcomes().to_vec()
            }
        };
        let wanted = self.model.together(&shares, now);
        same(&got, &wanted)?;
        for (share, decision) in shares.iter().zip(&wanted) {
            self.receipts.push((On { limit: share.limit, key: share.key }, decision.receipt()));
        }
        Ok(())
    }

    fn all_can(&mut self, now: Timestamp, shares: &[Share]) -> bool {
        let can = |s: &Share| self.can(On { limit: s.limit, key: s.key }, now, Op::Hit(s.cost));
        shares.iter().all(can)
    }

    /// One share for each limit of the policy.
    fn shares_of_policy(&self, key: usize, units: impl Fn(u64) -> u64) -> Vec<Share> {
        let limits = &self.policy.1;
        let least = limits.iter().map(|limit| self.model.capacity(*limit)).min().unwrap_or(1);
        limits.iter().map(|limit| Share { limit: *limit, key, cost: units(least) }).collect()
    }

    fn policy_hit(&mut self, now: Timestamp, key: usize, amount: Amount) -> Checked {
        let shares = self.shares_of_policy(key, |capacity| amount.of(capacity));
        if !self.all_can(now, &shares) {
            return Ok(());
        }
        let (got, shown) = match self.way {
            Way::Store => (in_time(self.hit_together_in_store(now, &shares))?, None),
            Way::Limiters => {
                let at = self.policy.0.at(now);
                let policy = in_time(self.run(at.hit_n(AnyKey(key), shares[0].cost)))?;
                (policy.outcomes().to_vec(), Some(*policy.headline()))
            }
        };
        let wanted = self.model.together(&shares, now);
        if got.iter().any(|decision| decision.source() == Source::DenialCache) {
            return remembered(&got, &wanted);
        }
        same(&got, &wanted)?;
        if let (Some(shown), Some(wanted)) = (shown, headline(&wanted)) {
            same(&[shown], std::slice::from_ref(wanted))?;
        }
        self.charges.push((key, wanted.iter().map(Outcome::receipt).collect()));
        Ok(())
    }

    fn policy_each(&mut self, now: Timestamp, key: usize, what: What) -> Checked {
        let shares = self.shares_of_policy(key, |capacity| match what.op(capacity) {
            Op::Peek(n) | Op::Charge(n) | Op::Set(n) => n,
            _ => 0,
        });
        let op = match what {
            What::Peek(_) => Op::Peek(shares[0].cost),
            What::Charge(_) => Op::Charge(shares[0].cost),
            What::Set(_) => Op::Set(shares[0].cost),
            _ => return Ok(()),
        };
        if !self.all_can(now, &shares) {
            return Ok(());
        }
        let asks: Vec<_> = shares.iter().map(|s| (On { limit: s.limit, key: s.key }, op)).collect();
        let got = match self.way {
            Way::Store => in_time(self.in_store(now, &asks))?,
            Way::Limiters => {
                let (at, key) = (self.policy.0.at(now), AnyKey(key));
                let policy = self.run(async {
                    match op {
                        Op::Peek(cost) => at.peek_n(key, cost).await,
                        Op::Charge(units) => at.charge(key, units).await,
                        _ => at.set(key, shares[0].cost).await,
                    }
                });
                in_time(policy)?.outcomes().to_vec()
            }
        };
        self.compare_each(now, &asks, &got)
    }

    fn policy_refund(&mut self, now: Timestamp, index: usize) -> Checked {
        let Some(index) = self.charges.len().checked_sub(index + 1) else { return Ok(()) };
        let (key, receipts) = self.charges[index].clone();
        let limits = self.policy.1.iter();
        let ask = |(limit, receipt): (&usize, &Receipt)| {
            (On { limit: *limit, key }, Op::Refund(*receipt))
        };
        let asks: Vec<_> = limits.zip(&receipts).map(ask).collect();
        // A policy limiter refunds by the decision, which does not outlive its own call here.
        // Refunding limit by limit is equivalent.
        let got = match self.way {
            Way::Store => in_time(self.in_store(now, &asks))?,
            Way::Limiters => asks
                .iter()
                .map(|(on, op)| self.limiters[on.limit].apply(now, AnyKey(on.key), *op))
                .collect(),
        };
        self.compare_each(now, &asks, &got)
    }
}

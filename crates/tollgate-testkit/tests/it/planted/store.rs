//! A store of states in a map, exact or with one fault. It behaves as a remote store: calls can
//! fail and hang, and it has a timer.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::algorithm::{Act, AnyMachine, AnyState, Op, hit_together};
use tollgate::shared::{Ask, Guard, HitItem, SharedStore};
use tollgate::{Algorithm, Clock, Error, KeyRef, Limit, Outcome, SystemClock, Timestamp};
use tollgate_testkit::{Kept, Subject};

use super::fault::{Fault, Place, TICK, identity, one_period, place, written};
use super::timer::{self, Timer};

#[derive(Debug)]
pub(crate) struct Handle {
    fault: Option<Fault>,
    world: Arc<World>,
    guard: Arc<Guard>,
    /// The number of the handle, from 0.
    number: u64,
}

/// A clone shares the guard: that is how limiters see that two handles are of one store.
impl Clone for Handle {
    fn clone(&self) -> Self {
        let guard = match self.fault {
            Some(Fault::TakesClonesForOthers) => Arc::new(Guard::builder().build()),
            _ => Arc::clone(&self.guard),
        };
        Handle { fault: self.fault, world: Arc::clone(&self.world), guard, number: self.number }
    }
}

#[derive(Debug, Default)]
struct World {
    whole_step: Mutex<()>,
    states: Mutex<HashMap<Place, (Timestamp, AnyState)>>,
    /// Denials that a faulty store remembers by itself.
    denials: Mutex<HashMap<Place, (Outcome, Option<AnyState>)>>,
    latest: AtomicU64,
    handles: AtomicU64,
    broken: AtomicBool,
}

/// Whether operations are independent or all or nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Each,
    Together,
}

#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    identity: String,
    limit: Limit,
    machine: AnyMachine,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of the keys of a call.
struct Owned {
    prepared: Prepared,
    place: Place,
    op: Op,
}

impl Handle {
    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn step(&self) -> Option<MutexGuard<'_, ()>> {
        (!self.is(Fault::Racy)).then(|| lock(&self.world.whole_step))
    }

    fn now(&self, at: Option<Timestamp>) -> Timestamp {
        let skew = if self.is(Fault::ClockOfEachHandle) { 600 * self.number } else { 0 };
        let now = at.unwrap_or_else(|| SystemClock::new().now() + Duration::from_secs(skew));
        if !self.is(Fault::TrustsTheLatestTime) {
            return now;
        }
        let latest = self.world.latest.fetch_max(now.as_micros(), Ordering::Relaxed);
        now.max(Timestamp::from_micros(latest))
    }

    fn look(&self, prepared: &Prepared, place: &Place, now: Timestamp) -> Option<AnyState> {
        let found = lock(&self.world.states).get(place).cloned();
        if self.is(Fault::Racy) {
            // Another thread may write the state between this read and the write.
            std::thread::yield_now();
        }
        let (at, state) = found?;
        let run_out = match self.fault {
            Some(Fault::ShortTtl) => one_period(at, &prepared.limit) <= now,
            Some(Fault::WrongBoundary) => {
                prepared.machine.fresh_at(Some(&state)).is_some_and(|at| at <= now + TICK)
            }
            _ => false,
        };
        (!run_out).then_some(state)
    }

    fn change(
        &self,
        of: &Owned,
        now: Timestamp,
        f: impl FnOnce(&AnyMachine, &mut Option<AnyState>) -> Outcome,
    ) -> Outcome {
        let Owned { prepared, place, .. } = of;
        let mut state = self.look(prepared, place, now);
        let before = state.clone();
        let decision = f(&prepared.machine, &mut state);
        if state != before {
            let mut states = lock(&self.world.states);
            match state {
                Some(state) => {
                    let state = written(self.fault, &prepared.limit, now, state);
                    states.insert(place.clone(), (now, state));
                }
                None if self.is(Fault::KeepsFreshKeys) && of.op != Op::Reset => {}
                None => drop(states.remove(place)),
            }
        }
        decision
    }

    fn one(&self, of: &Owned, now: Timestamp) -> Outcome {
        if let Some(remembered) = self.remembered(of, now) {
            return remembered;
        }
        let op = of.op;
        let before = self.look(&of.prepared, &of.place, now);
        let decision = self.change(of, now, |machine, state| match (self.fault, op) {
            (Some(Fault::ResetsInVain), Op::Reset) => machine.apply(&mut state.clone(), now, op),
            (Some(Fault::PeeksPush), Op::Peek(_)) => {
                let seen = machine.apply(&mut state.clone(), now, op);
                let _ = machine.act(state, now, Act::DenyHit(0));
                seen
            }
            (Some(Fault::AdmitsTheBurstTwice), Op::Hit(cost)) => {
                let used = machine.apply(state, now, Op::Peek(cost)).used();
                let full = used >= machine.capacity() && used < 2 * machine.capacity();
                machine.apply(state, now, if full { Op::Charge(cost) } else { op })
            }
            _ => {
                let decision = machine.apply(state, now, op);
                if self.is(Fault::ChargesDenied) && !decision.allowed() && matches!(op, Op::Hit(_))
                {
                    let _ = machine.apply(state, now, Op::Charge(1));
                }
                decision
            }
        });
        if !decision.allowed() && matches!(op, Op::Hit(_)) {
            lock(&self.world.denials).insert(of.place.clone(), (decision, before));
        }
        decision
    }

    /// The answer of a store that remembers wrongly and does not look at the state.
    fn remembered(&self, of: &Owned, now: Timestamp) -> Option<Outcome> {
        let Op::Hit(cost) = of.op else { return None };
        let (denied, mut state) = lock(&self.world.denials).get(&of.place).cloned()?;
        let wait = denied.retry_after()?;
        let elastic = of.prepared.limit.algorithm() == Algorithm::ElasticWindow;
        let until = match self.fault? {
            Fault::RemembersBeyondRefunds | Fault::RemembersAnyCost => denied.now() + wait,
            Fault::RemembersTooLong => denied.now() + wait + TICK,
            Fault::RemembersElasticWindows if elastic => denied.now() + wait,
            _ => return None,
        };
        let smaller = cost < denied.receipt().units.max(1);
        if now >= until || (smaller && !self.is(Fault::RemembersAnyCost)) {
            return None;
        }
        let given_back =
            matches!(self.fault, Some(Fault::RemembersTooLong | Fault::RemembersAnyCost))
                && self.look(&of.prepared, &of.place, now) != state;
        if given_back && !self.is(Fault::RemembersAnyCost) {
            return None;
        }
        let again = of.prepared.machine.apply(&mut state, now, Op::Peek(cost));
        Some(if again.allowed() { denied } else { again })
    }

    fn together(&self, all: &[Owned], now: Timestamp) -> Vec<Outcome> {
        let cost = |of: &Owned| if let Op::Hit(cost) = of.op { cost } else { 0 };
        if all.iter().any(|of| of.prepared.machine.is_ban()) {
            let parts = all.iter().map(|of| of.prepared.machine.part(cost(of)));
            let Ok(outcomes): Result<_, Infallible> =
                hit_together(parts, |part, act| Ok(self.with_ban(&all[part], now, act)));
            return outcomes;
        }
        let ask = |of: &Owned| {
            self.change(of, now, |machine, state| machine.apply(state, now, Op::Peek(cost(of))))
        };
        let pass = all.iter().map(|of| ask(of).allowed()).fold(true, |all, one| all & one);
        let decide = |of: &Owned| {
            self.change(of, now, |machine, state| {
                if pass || self.is(Fault::ChargesWhatFits) {
                    if self.is(Fault::ChargesPoliciesTwice) {
                        let _ = machine.apply(state, now, Op::Charge(cost(of)));
                    }
                    return machine.apply(state, now, Op::Hit(cost(of)));
                }
                if self.is(Fault::ForgetsChargeDenied) {
                    return machine.apply(state, now, Op::Peek(cost(of)));
                }
                machine.act(state, now, Act::DenyHit(cost(of)))
            })
        };
        all.iter().map(decide).collect()
    }

    /// One part of a hit on a policy with a ban.
    fn with_ban(&self, of: &Owned, now: Timestamp, act: Act) -> Outcome {
        self.change(of, now, |machine, state| {
            if let Some(AnyState::Ban(ban)) = state
                && self.is(Fault::LevelsOfBansNeverDecay)
                && ban.end > Timestamp::EPOCH
            {
                ban.end = ban.end.max(now);
            }
            let before = state.clone();
            let outcome = machine.act(state, now, act);
            let starts = outcome.banned() && matches!(act, Act::DenyHit(_));
            if self.is(Fault::BansStartOneDenialLate) && starts {
                let mut late = lock(&self.world.denials);
                if late.remove(&of.place).is_none() {
                    late.insert(of.place.clone(), (outcome, None));
                    *state = before;
                    return machine.apply(state, now, Op::Peek(0));
                }
            }
            if let Some(AnyState::Ban(ban)) = state
                && self.is(Fault::AttemptsExtendBans)
                && outcome.banned()
                && !starts
                && !matches!(act, Act::Op(_))
            {
                ban.end = ban.end + TICK;
            }
            outcome
        })
    }

    fn decide(&self, all: &[Owned], mode: Mode, now: Timestamp) -> Vec<Outcome> {
        let _whole = self.step();
        if mode == Mode::Together {
            return self.together(all, now);
        }
        let mut decisions: Vec<Outcome> = Vec::new();
        for (index, of) in all.iter().enumerate() {
            let same = all[..index].iter().position(|earlier| earlier.place == of.place);
            match same.filter(|_| self.is(Fault::SkipsRepeatedKeys)) {
                Some(earlier) => decisions.push(decisions[earlier]),
                None => decisions.push(self.one(of, now)),
            }
        }
        decisions
    }

    /// Behaves like a broken store: fails, or does not answer.
    async fn broken(
        self,
        all: Vec<Owned>,
        mode: Mode,
        now: Timestamp,
    ) -> Result<Vec<Outcome>, Error> {
        match self.fault {
            Some(Fault::AdmitsOnError) => {
                Ok(all.iter().map(|of| of.prepared.machine.apply(&mut None, now, of.op)).collect())
            }
            Some(Fault::DeniesOnError) => {
                let deny =
                    |of: &Owned| of.prepared.machine.apply(&mut None, now, Op::Hit(u64::MAX));
                Ok(all.iter().map(deny).collect())
            }
            Some(Fault::BlocksOnError) => {
                timer::pause(Duration::from_secs(3));
                Err(Error::lost("at last"))
            }
            Some(Fault::ExecutesThoughUnavailable) => {
                let _ = self.decide(&all, mode, now);
                Err(Error::unavailable("so it says"))
            }
            _ if now.as_micros().is_multiple_of(3) => pending().await,
            _ => Err(Error::unavailable("connection refused")),
        }
    }

    async fn answer(
        self,
        all: Vec<Owned>,
        mode: Mode,
        now: Timestamp,
    ) -> Result<Vec<Outcome>, Error> {
        let resets = all.iter().any(|of| of.op == Op::Reset);
        match self.is_broken() {
            true if resets => Err(Error::unavailable("connection refused")),
            true => self.broken(all, mode, now).await,
            false => Ok(self.decide(&all, mode, now)),
        }
    }

    fn is_broken(&self) -> bool {
        self.world.broken.load(Ordering::Acquire)
    }

    fn place(&self, prepared: &Prepared, key: KeyRef<'_>) -> Place {
        place(self.fault, &prepared.identity, key)
    }
}

impl SharedStore for Handle {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        let identity = identity(self.fault, namespace, limit);
        Ok(Prepared { identity, limit: limit.clone(), machine: AnyMachine::new(limit) })
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Prepared>],
        at: Option<Timestamp>,
        _: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let own = |ask: &Ask<'_, Prepared>| Owned {
            place: self.place(ask.prepared, ask.key),
            prepared: ask.prepared.clone(),
            op: ask.op,
        };
        self.clone().answer(asks.iter().map(own).collect(), Mode::Each, self.now(at))
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Prepared>],
        at: Option<Timestamp>,
        _: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let own = |hit: &HitItem<'_, Prepared>| {
            let mut prepared = hit.prepared.clone();
            if self.is(Fault::CountsPoliciesApart) {
                prepared.identity.push_str(" of a policy");
            }
            Owned { place: self.place(&prepared, hit.key), prepared, op: Op::Hit(hit.cost) }
        };
        self.clone().answer(hits.iter().map(own).collect(), Mode::Together, self.now(at))
    }

    fn clear(&self, prepared: &Prepared) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (handle, identity) = (self.clone(), prepared.identity.clone());
        async move {
            let _whole = handle.step();
            lock(&handle.world.states).retain(|(of, _), _| *of != identity);
            Ok(())
        }
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let broken = self.is_broken();
        async move { if broken { Err(Error::unavailable("connection refused")) } else { Ok(()) } }
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// The store as the conformance suite tests it, with at most one planted fault.
#[derive(Debug)]
pub(crate) struct Planted {
    fault: Option<Fault>,
    world: Arc<World>,
    guard: Arc<Guard>,
}

impl Planted {
    pub(crate) fn new(fault: Option<Fault>) -> Planted {
        // Without a fault, the guard has a denial cache too. With a fault it has none, because
        // remembered denials could hide the fault.
        let denials = if fault.is_some() { 0 } else { 1_000 };
        let guard = Guard::builder().remember_denials(denials).build_on(Timer);
        Planted { fault, world: Arc::default(), guard: Arc::new(guard) }
    }
}

impl Subject for Planted {
    type Store = Handle;

    fn store(&self) -> Handle {
        let number = self.world.handles.fetch_add(1, Ordering::Relaxed);
        let world = match self.fault {
            Some(Fault::CountsForEachHandle) => Arc::default(),
            _ => Arc::clone(&self.world),
        };
        Handle { fault: self.fault, world, guard: Arc::clone(&self.guard), number }
    }

    fn kept(&self, namespace: &str, limit: &Limit, key: KeyRef<'_>) -> Option<Kept> {
        let handle = self.store();
        let prepared = handle.prepare(namespace, limit).ok()?;
        let now = handle.now(None);
        let found = lock(&self.world.states).get(&handle.place(&prepared, key)).cloned();
        let Some((at, state)) = found else { return Some(Kept::Nothing) };
        let until = match self.fault {
            Some(Fault::NoTtl) => return Some(Kept::ForEver),
            Some(Fault::ShortTtl) => one_period(at, limit),
            _ => prepared.machine.fresh_at(Some(&state)).unwrap_or(now),
        };
        Some(if until > now { Kept::For(until.since(now)) } else { Kept::Nothing })
    }

    fn break_store(&self) -> bool {
        self.world.broken.store(true, Ordering::Release);
        true
    }

    fn mend_store(&self) {
        self.world.broken.store(false, Ordering::Release);
    }
}

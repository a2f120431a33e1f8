//! A simulated store, network and clock. Everything follows from the seed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::algorithm::{AnyMachine, AnyState, Op, hit_together};
use tollgate::shared::{Ask, Guard, HitItem, Place, Runtime, SharedStore, Task};
use tollgate::{Clock, Error, Limit, Outcome, Timestamp};

use tollgate_testkit::Random;

/// The behaviour of the network, in microseconds and percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) delay: u64,
    pub(crate) loss: u64,
    pub(crate) deadline: Duration,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) random: Random,
    weather: Weather,
    timers: BTreeMap<u64, Vec<Waker>>,
    states: HashMap<Vec<u8>, Option<AnyState>>,
    /// Nodes that cannot reach the store, by number.
    pub(crate) cut: Vec<bool>,
    /// The calls that reached the store.
    pub(crate) calls: u64,
}

/// The state of one run.
#[derive(Clone)]
pub(crate) struct Sim {
    world: Arc<Mutex<World>>,
    spawned: Arc<Mutex<Vec<(usize, Task)>>>,
}

impl Sim {
    pub(crate) fn new(seed: u64, nodes: usize, weather: Weather) -> Sim {
        let world = World {
            now: 1_000_000_000,
            random: Random::new(seed),
            weather,
            timers: BTreeMap::new(),
            states: HashMap::new(),
            cut: vec![false; nodes],
            calls: 0,
        };
        Sim { world: Arc::new(Mutex::new(world)), spawned: Arc::default() }
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.world().now)
    }

    pub(crate) fn spawn(&self, node: usize, task: impl Future<Output = ()> + Send + 'static) {
        self.spawned.lock().unwrap().push((node, Box::pin(task)));
    }

    /// Sleeps for this long.
    pub(crate) fn sleep(&self, micros: u64) -> impl Future<Output = ()> + Send + use<> {
        let sim = self.clone();
        let mut until = None;
        poll_fn(move |cx| {
            let mut world = sim.world();
            let until = *until.get_or_insert(world.now + micros);
            if world.now >= until {
                return Poll::Ready(());
            }
            world.timers.entry(until).or_default().push(cx.waker().clone());
            Poll::Pending
        })
    }
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sim")
    }
}

/// Runs tasks that were woken, in order. Time moves only when no task can run.
#[derive(Default)]
pub(crate) struct Executor {
    tasks: HashMap<u64, (usize, Task)>,
    next: u64,
    ready: Arc<Ready>,
    /// Nodes whose tasks are suspended.
    stopped: Vec<usize>,
    /// Tasks of suspended nodes that were woken.
    held_back: Vec<u64>,
}

impl Executor {
    /// Ends all tasks of a node, as its crash would.
    pub(crate) fn kill(&mut self, sim: &Sim, node: usize) {
        self.admit(sim);
        self.tasks.retain(|_, (of, _)| *of != node);
    }

    /// Suspends or resumes a node.
    pub(crate) fn stop_or_go_on(&mut self, node: usize) {
        match self.stopped.iter().position(|stopped| *stopped == node) {
            Some(at) => drop(self.stopped.swap_remove(at)),
            None => self.stopped.push(node),
        }
        self.held_back.drain(..).for_each(|id| self.ready.push(id));
    }

    pub(crate) fn all_go_on(&mut self) {
        self.stopped.clear();
        self.held_back.drain(..).for_each(|id| self.ready.push(id));
    }

    fn admit(&mut self, sim: &Sim) {
        for task in sim.spawned.lock().unwrap().drain(..) {
            self.tasks.insert(self.next, task);
            self.ready.push(self.next);
            self.next += 1;
        }
    }

    /// Runs everything up to this time.
    pub(crate) fn run_until(&mut self, sim: &Sim, until: u64) {
        loop {
            self.run_ready(sim);
            let mut world = sim.world();
            let Some(next) = world.timers.first_entry().filter(|next| *next.key() <= until) else {
                world.now = until.max(world.now);
                return;
            };
            let (now, wakers) = next.remove_entry();
            world.now = now.max(world.now);
            drop(world);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    fn run_ready(&mut self, sim: &Sim) {
        loop {
            self.admit(sim);
            let Some(id) = self.ready.pop() else { return };
            let Some((node, task)) = self.tasks.get_mut(&id) else { continue };
            if self.stopped.contains(node) {
                self.held_back.push(id);
                continue;
            }
            let waker = Waker::from(Arc::new(Woken { id, ready: Arc::clone(&self.ready) }));
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                self.tasks.remove(&id);
            }
        }
    }
}

/// Tasks that were woken, each once, in order.
#[derive(Default)]
struct Ready(Mutex<(VecDeque<u64>, HashSet<u64>)>);

impl Ready {
    fn push(&self, id: u64) {
        let (order, all) = &mut *self.0.lock().unwrap();
        if all.insert(id) {
            order.push_back(id);
        }
    }

    fn pop(&self) -> Option<u64> {
        let (order, all) = &mut *self.0.lock().unwrap();
        let id = order.pop_front()?;
        all.remove(&id);
        Some(id)
    }
}

struct Woken {
    id: u64,
    ready: Arc<Ready>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.id);
    }
}

/// The store as one node reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Far {
    sim: Sim,
    pub(crate) node: usize,
    guard: Arc<Guard>,
}

#[derive(Clone, Debug)]
pub(crate) struct FarPrepared {
    place: Place,
    machine: AnyMachine,
}

impl Far {
    pub(crate) fn new(sim: &Sim, node: usize) -> Far {
        let weather = sim.world().weather;
        let clock = NodeClock::exact(sim);
        let runtime = NodeRuntime { sim: sim.clone(), node };
        let guard = Guard::builder().deadline(weather.deadline).remember_denials(0).clock(clock);
        Far { sim: sim.clone(), node, guard: Arc::new(guard.build_on(runtime)) }
    }

    /// One trip through the network; false if the message is lost.
    async fn way(sim: Sim, node: usize) -> bool {
        let (delay, lost) = {
            let world = &mut *sim.world();
            let delay = world.random.below(world.weather.delay + 1);
            (delay, world.random.percent(world.weather.loss))
        };
        sim.sleep(delay).await;
        !lost && !sim.world().cut[node]
    }

    /// The answer of the store, if neither the call nor the answer gets lost.
    async fn through<T>(
        sim: Sim,
        node: usize,
        decide: impl FnOnce(&mut World) -> T,
    ) -> Result<T, Error> {
        if !Far::way(sim.clone(), node).await {
            return lost().await;
        }
        let outcomes = {
            let world = &mut *sim.world();
            world.calls += 1;
            decide(world)
        };
        if !Far::way(sim, node).await {
            return lost().await;
        }
        Ok(outcomes)
    }
}

/// Tasks and timers of one node.
#[derive(Debug)]
struct NodeRuntime {
    sim: Sim,
    node: usize,
}

impl Runtime for NodeRuntime {
    fn sleep(&self, span: Duration) -> Task {
        Box::pin(self.sim.sleep(u64::try_from(span.as_micros()).unwrap()))
    }

    fn spawn(&self, task: Task) {
        self.sim.spawn(self.node, task);
    }
}

/// A future that never ends.
async fn lost<T>() -> T {
    std::future::pending().await
}

impl SharedStore for Far {
    type Prepared = FarPrepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<FarPrepared, Error> {
        Ok(FarPrepared { place: Place::new(namespace, limit), machine: AnyMachine::new(limit) })
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, FarPrepared>],
        at: Option<Timestamp>,
        _: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        assert!(at.is_none());
        let (sim, node) = (self.sim.clone(), self.node);
        let asks: Vec<_> = asks
            .iter()
            .map(|ask| (ask.prepared.place.key(ask.key), ask.prepared.machine, ask.op))
            .collect();
        Far::through(sim, node, move |world| {
            let now = Timestamp::from_micros(world.now);
            let apply = |(place, machine, op): (Vec<u8>, AnyMachine, Op)| {
                machine.apply(world.states.entry(place).or_default(), now, op)
            };
            asks.into_iter().map(apply).collect()
        })
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, FarPrepared>],
        at: Option<Timestamp>,
        _: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        assert!(at.is_none());
        let (sim, node) = (self.sim.clone(), self.node);
        let hits: Vec<_> = hits
            .iter()
            .map(|hit| (hit.prepared.place.key(hit.key), hit.prepared.machine, hit.cost))
            .collect();
        Far::through(sim, node, move |world| {
            let now = Timestamp::from_micros(world.now);
            let Ok(outcomes): Result<_, Infallible> = hit_together(
                hits.iter().map(|(_, machine, cost)| machine.part(*cost)),
                |hit, act| {
                    let (place, machine, _) = &hits[hit];
                    Ok(machine.act(world.states.entry(place.clone()).or_default(), now, act))
                },
            );
            outcomes
        })
    }

    fn clear(&self, _: &FarPrepared) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        std::future::ready(Err(Error::request("not simulated")))
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        std::future::ready(Ok(()))
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// The clock of a node. It starts at any time, and runs fast or slow by some millionths.
#[derive(Debug)]
pub(crate) struct NodeClock {
    sim: Sim,
    begin: u64,
    millionths: i64,
}

impl NodeClock {
    pub(crate) fn new(sim: &Sim, begin: u64, millionths: i64) -> NodeClock {
        NodeClock { sim: sim.clone(), begin, millionths }
    }

    fn exact(sim: &Sim) -> NodeClock {
        NodeClock::new(sim, 0, 0)
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        let now = i128::from(self.sim.world().now);
        let micros = now + now * i128::from(self.millionths) / 1_000_000;
        Timestamp::from_micros(self.begin + u64::try_from(micros).unwrap())
    }
}

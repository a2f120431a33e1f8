//! The simulation: events in the order of their times, on a clock that it sets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Error, Limiter, ManualClock, Memory, Policy, Timestamp};
use tollgate_report::{STEPS, Timeline};

use crate::load::{Arrivals, Load};
use crate::outcome::{GroupOutcome, Outcome};
use crate::random::Random;
use crate::retry::Retry;
use crate::waits::Waits;

/// The traffic, and how long it lasts.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Clients that are alike.
    pub groups: Vec<Group>,
    /// The length of the traffic.
    pub span: Duration,
    /// The seed of the random numbers: the same seed gives the same traffic.
    pub seed: u64,
    /// All clients share one key. Else each has its own.
    pub shared_key: bool,
    /// The time from an answer to the next attempt, when a client tries again immediately.
    pub round_trip: Duration,
    /// The most attempts for one request.
    pub attempts: u32,
}

impl Default for Simulation {
    fn default() -> Self {
        Simulation {
            groups: Vec::new(),
            span: Duration::from_secs(600),
            seed: 1,
            shared_key: false,
            round_trip: Duration::from_millis(20),
            attempts: 10,
        }
    }
}

/// Clients that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// When the requests of each client arrive.
    pub load: Load,
    /// How many clients there are.
    pub clients: u32,
    /// The reaction of the clients to a denial.
    pub retry: Retry,
    /// The cost of a request.
    pub cost: u64,
}

impl Default for Group {
    fn default() -> Self {
        let load = Load::Bursts(1, Duration::from_secs(1));
        Group { load, clients: 1, retry: Retry::None, cost: 1 }
    }
}

/// One attempt to make a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The number of the client, from 0.
    pub client: u32,
    /// When it was made, in microseconds after the begin.
    pub at: u64,
    /// Whether it was admitted.
    pub allowed: bool,
}

/// When the simulation begins: a midnight, because fixed windows go by the clock.
const BEGIN: u64 = 1_767_225_600_000_000;

/// The purposes of random numbers. Those of arrivals are the same whatever a limit denies.
const ARRIVALS: u64 = 1;
const RETRIES: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: u64,
    /// The order among events of one time.
    sequence: u64,
    client: u32,
    /// When the request arrived first.
    arrived: u64,
    /// The number of the attempt, from 1.
    attempt: u32,
}

struct Client {
    group: usize,
    arrivals: Arrivals,
    retries: Random,
}

impl Simulation {
    /// Runs the traffic against a limit. `seen` gets every attempt.
    ///
    /// # Errors
    /// When the limit is one that the in-process store does not hold.
    pub fn run(&self, limit: &Policy, seen: impl FnMut(Attempt)) -> Result<Outcome, Error> {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(BEGIN)));
        let store = Memory::builder().clock(Arc::clone(&clock)).build();
        let limiter = store.limiter(limit.clone())?;
        let mut run = Run::new(self, clock, limiter, limit.to_string());
        run.all(seen);
        Ok(run.outcome)
    }

    /// The number of all clients.
    #[must_use]
    pub fn clients(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.clients)).sum()
    }

    fn micros(&self) -> u64 {
        micros(self.span)
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

struct Run<'a> {
    simulation: &'a Simulation,
    clock: Arc<ManualClock>,
    limiter: Limiter<Memory<Arc<ManualClock>>>,
    clients: Vec<Client>,
    events: BinaryHeap<Reverse<Event>>,
    sequence: u64,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(
        simulation: &'a Simulation,
        clock: Arc<ManualClock>,
        limiter: Limiter<Memory<Arc<ManualClock>>>,
        limit: String,
    ) -> Run<'a> {
        let mut clients = Vec::new();
        for (group, settings) in simulation.groups.iter().enumerate() {
            for _ in 0..settings.clients {
                let number = clients.len() as u64;
                let random = |purpose| Random::new(simulation.seed, number, purpose);
                let arrivals = Arrivals::new(settings.load, random(ARRIVALS));
                clients.push(Client { group, arrivals, retries: random(RETRIES) });
            }
        }
        let step = simulation.micros().div_ceil(STEPS as u64);
        let outcome = Outcome {
            limit,
            requests: 0,
            attempts: 0,
            admitted: 0,
            admitted_at_once: 0,
            denied: 0,
            given_up: 0,
            waiting: 0,
            waits: Waits::default(),
            per_client: vec![0; clients.len()],
            groups: vec![GroupOutcome::default(); simulation.groups.len()],
            timeline: Timeline::with_steps_of(step),
        };
        let (events, sequence) = (BinaryHeap::new(), 0);
        Run { simulation, clock, limiter, clients, events, sequence, outcome }
    }

    fn all(&mut self, mut seen: impl FnMut(Attempt)) {
        for client in 0..u32::try_from(self.clients.len()).unwrap_or(u32::MAX) {
            self.arrive(client);
        }
        let end = self.simulation.micros();
        while let Some(Reverse(event)) = self.events.pop() {
            if event.at >= end {
                // Every later event lies beyond the end too.
                self.outcome.waiting += u64::from(event.attempt > 1);
                continue;
            }
            if event.attempt == 1 {
                self.outcome.requests += 1;
                let group = self.clients[event.client as usize].group;
                self.outcome.groups[group].requests += 1;
                self.arrive(event.client);
            }
            seen(self.attempt(event));
        }
    }

    /// Schedules the next request of a client.
    fn arrive(&mut self, client: u32) {
        let at = self.clients[client as usize].arrivals.next();
        self.schedule(at, client, at, 1);
    }

    fn schedule(&mut self, at: u64, client: u32, arrived: u64, attempt: u32) {
        self.sequence += 1;
        let event = Event { at, sequence: self.sequence, client, arrived, attempt };
        self.events.push(Reverse(event));
    }

    fn attempt(&mut self, event: Event) -> Attempt {
        let Event { at, client, arrived, attempt, .. } = event;
        let group = &self.simulation.groups[self.clients[client as usize].group];
        let now = Timestamp::from_micros(BEGIN.saturating_add(at));
        self.clock.set(now);
        let key = if self.simulation.shared_key { u32::MAX } else { client };
        let decision = self.limiter.at(now).hit_n(key, group.cost);
        let allowed = decision.allowed();
        self.outcome.attempts += 1;
        self.outcome.timeline.count(at, !allowed);
        if allowed {
            self.outcome.admitted += 1;
            self.outcome.admitted_at_once += u64::from(attempt == 1);
            self.outcome.waits.add(at - arrived);
            self.outcome.per_client[client as usize] += 1;
            self.outcome.groups[self.clients[client as usize].group].admitted += 1;
            return Attempt { client, at, allowed };
        }
        self.outcome.denied += 1;
        let retries = &mut self.clients[client as usize].retries;
        let wait = group.retry.wait(attempt, decision.retry_after(), retries);
        match wait.filter(|_| attempt < self.simulation.attempts) {
            Some(wait) => {
                // An answer takes its time, so the clock always moves on.
                let wait = micros(wait).max(micros(self.simulation.round_trip)).max(1);
                self.schedule(at.saturating_add(wait), client, arrived, attempt + 1);
            }
            None => self.outcome.given_up += 1,
        }
        Attempt { client, at, allowed }
    }
}

//! The world: nodes, their messages, and all events in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use tollgate::algorithm::Op;
use tollgate::{KeyRef, Timestamp};
use tollgate_cluster::replicated::{
    Actor, Body, Message, OnMissing, Outgoing, PARTS, Prepared, Replica,
};

use super::draw::Draw;
use super::plant::{Plant, Planted};
use tollgate_testkit::Random;

const KEY: KeyRef<'static> = KeyRef::plain(b"key");

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Hit,
    Tick(usize, Actor),
    Deliver(usize, Actor, Vec<u8>),
    Crash(usize),
    Start(usize),
    /// Counts are compared.
    Agree,
}

/// A hit as an outside observer sees it.
#[derive(Clone, Debug)]
pub(super) struct Hit {
    /// True time.
    pub(super) at: u64,
    /// The time of the node's clock.
    pub(super) local: u64,
    pub(super) node: usize,
    pub(super) actor: Actor,
    pub(super) cost: u64,
    pub(super) admitted: bool,
    /// Whether the node had fetched the counts of others. Before that, it keeps to a share.
    pub(super) ready: bool,
    /// Whether it keeps to a share, or admits nothing, because nodes are missing.
    pub(super) restricted: bool,
    /// Units admitted by the actor in the slot of the hit, with this one.
    pub(super) total: u64,
    /// The oldest hit of another actor that counts here and was not known, as an index into the
    /// ledger.
    pub(super) unseen: Vec<usize>,
}

/// All events.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) hits: Vec<Hit>,
    /// The units that each receiver has heard of, by (receiver, actor, slot), while the slot was
    /// alive at the receiver.
    pub(super) heard: HashMap<(Actor, Actor, u64), u64>,
    /// Actors that are alive at the end.
    pub(super) alive: Vec<Actor>,
    /// Digests of all live actors, some time after everything was repaired.
    pub(super) digests: Vec<[u64; PARTS]>,
    /// How many nodes each of them misses at that time.
    pub(super) missing: Vec<u64>,
    pub(super) span: u64,
}

struct Node {
    replica: Replica,
    prepared: Prepared,
    tick: u64,
}

pub(super) struct World<'a> {
    draw: &'a Draw,
    plant: Plant,
    planted: Planted,
    random: Random,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    nodes: Vec<Option<Node>>,
    starts: u64,
    totals: HashMap<(Actor, u64), u64>,
    ledger: Ledger,
}

impl<'a> World<'a> {
    pub(super) fn new(draw: &'a Draw, plant: Plant) -> World<'a> {
        let mut world = World {
            draw,
            plant,
            planted: Planted::default(),
            random: Random::new(draw.seed ^ 0x5eed),
            events: BinaryHeap::new(),
            order: 0,
            nodes: (0..draw.nodes).map(|_| None).collect(),
            starts: 0,
            totals: HashMap::new(),
            ledger: Ledger { span: span_of(draw), ..Ledger::default() },
        };
        for node in 0..draw.nodes {
            world.plan(node as u64, Event::Start(node));
        }
        for (node, at, back) in &draw.crashes {
            world.plan(*at, Event::Crash(*node));
            world.plan(*back, Event::Start(*node));
        }
        world.plan(draw.begin, Event::Hit);
        // Two rounds of comparing, with two message delays.
        let compare = draw.settings.compare.as_micros() as u64;
        world.plan(draw.end + 3 * compare + 4 * draw.delay + 1, Event::Agree);
        world
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    pub(super) fn run(mut self) -> Ledger {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            match event {
                Event::Hit => self.hit(at),
                Event::Tick(node, actor) => self.tick(at, node, actor),
                Event::Deliver(node, actor, bytes) => self.deliver(at, node, actor, &bytes),
                Event::Crash(node) => self.nodes[node] = None,
                Event::Start(node) => self.start(at, node),
                Event::Agree => {
                    self.agree(at);
                    break;
                }
            }
        }
        self.ledger
    }

    fn local(&self, at: u64, node: usize) -> Timestamp {
        Timestamp::from_micros(at + self.draw.offsets[node])
    }

    fn start(&mut self, at: u64, node: usize) {
        if self.nodes[node].is_some() {
            return;
        }
        self.starts += 1;
        let actor = self.starts * 0x1_0001 + self.draw.seed;
        let mut settings = self.draw.settings.clone();
        if self.draw.named {
            settings.node = format!("node {node}");
        }
        let replica = Replica::new(actor, settings);
        let prepared = replica.prepare("", &self.draw.limit).unwrap();
        let out = replica.connected(self.local(at, node));
        self.nodes[node] = Some(Node { replica, prepared, tick: u64::MAX });
        self.send(at, node, out);
        self.plan_tick(at, node);
    }

    fn plan_tick(&mut self, at: u64, node: usize) {
        let offset = self.draw.offsets[node];
        let Some(here) = &mut self.nodes[node] else { return };
        let next = here.replica.next_tick().as_micros().saturating_sub(offset).max(at);
        if next < here.tick {
            here.tick = next;
            let actor = here.replica.actor();
            self.plan(next, Event::Tick(node, actor));
        }
    }

    fn tick(&mut self, at: u64, node: usize, actor: Actor) {
        let now = self.local(at, node);
        let Some(here) = &mut self.nodes[node] else { return };
        if here.replica.actor() != actor || here.tick != at {
            return;
        }
        here.tick = u64::MAX;
        let out = here.replica.tick(now);
        self.send(at, node, out);
        self.plan_tick(at, node);
    }

    fn send(&mut self, at: u64, from: usize, out: Vec<Outgoing>) {
        for Outgoing { to, bytes } in out {
            let bytes = self.planted.send(self.plant, bytes);
            for node in 0..self.nodes.len() {
                let Some(there) = &self.nodes[node] else { continue };
                let actor = there.replica.actor();
                if node == from || to.is_some_and(|to| to != actor) || self.lost(at, from, node) {
                    continue;
                }
                let copies = if self.random.percent(self.draw.doubled) { 2 } else { 1 };
                for _ in 0..copies {
                    let arrives = at + self.random.between(0..=self.draw.delay);
                    self.plan(arrives, Event::Deliver(node, actor, bytes.clone()));
                }
            }
        }
    }

    fn lost(&mut self, at: u64, from: usize, to: usize) -> bool {
        let apart = |(begin, until, sides): &(u64, u64, u64)| {
            (*begin..*until).contains(&at) && (sides >> from & 1) != (sides >> to & 1)
        };
        self.draw.splits.iter().any(apart)
            || at < self.draw.mended && at > self.draw.begin && self.random.percent(self.draw.loss)
    }

    fn deliver(&mut self, at: u64, node: usize, actor: Actor, bytes: &[u8]) {
        let now = self.local(at, node);
        let Some(here) = &self.nodes[node] else { return };
        if here.replica.actor() != actor {
            return;
        }
        note_heard(&mut self.ledger, actor, now.as_micros(), bytes);
        let bytes = self.planted.receive(self.plant, actor, now.as_micros(), bytes);
        let out = here.replica.receive(&bytes, now);
        self.send(at, node, out);
        self.plan_tick(at, node);
    }

    fn hit(&mut self, at: u64) {
        let next = at + self.random.between(1..=2 * self.draw.gap);
        if next < self.draw.end {
            self.plan(next, Event::Hit);
        }
        let node = self.random.between(0..=self.nodes.len() as u64 - 1) as usize;
        let cost = self.random.between(1..=self.draw.largest_cost);
        let now = self.local(at, node);
        let Some(here) = &self.nodes[node] else { return };
        let actor = here.replica.actor();
        let admitted = here.replica.apply(&here.prepared, KEY, Op::Hit(cost), now).allowed();
        let stats = here.replica.stats(now);
        let ready = stats.ready;
        let restricted = stats.missing > 0 && self.draw.settings.on_missing != OnMissing::GoOn;
        let local = now.as_micros();
        let total = self.totals.entry((actor, local / self.ledger.span)).or_default();
        *total += if admitted { cost } else { 0 };
        let total = *total;
        let unseen = if admitted { self.unseen(actor, local) } else { Vec::new() };
        let hit = Hit { at, local, node, actor, cost, admitted, ready, restricted, total, unseen };
        self.ledger.hits.push(hit);
        self.plan_tick(at, node);
    }

    /// Hits that others admitted, that still count at that time and that the actor has not heard
    /// of.
    fn unseen(&self, actor: Actor, local: u64) -> Vec<usize> {
        let Ledger { hits, heard, span, .. } = &self.ledger;
        let unknown = |hit: &Hit| {
            let known = heard.get(&(actor, hit.actor, hit.local / span)).copied().unwrap_or(0);
            hit.admitted && hit.actor != actor && known < hit.total
        };
        let matters = |hit: &Hit| super::check::matters(&self.draw.limit, *span, hit.local, local);
        let unseen = hits.iter().enumerate().filter(|(_, hit)| matters(hit) && unknown(hit));
        unseen.map(|(place, _)| place).collect()
    }

    fn agree(&mut self, at: u64) {
        // All look at the time of the fastest clock: what is alive then was not forgotten by any
        // replica.
        let fastest = self.draw.offsets.iter().max().copied().unwrap_or(0);
        let now = Timestamp::from_micros(at + fastest);
        for node in self.nodes.iter().flatten() {
            self.ledger.alive.push(node.replica.actor());
            self.ledger.digests.push(node.replica.digests(now));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let now = self.local(at, index);
            self.ledger.missing.push(node.replica.stats(now).missing);
        }
    }
}

/// The length of the slot of the first hit on a replica.
fn span_of(draw: &Draw) -> u64 {
    let replica = Replica::new(1, draw.settings.clone());
    let prepared = replica.prepare("", &draw.limit).unwrap();
    let now = Timestamp::from_micros(1);
    let _ = replica.connected(now);
    let other = Replica::new(2, draw.settings.clone());
    for Outgoing { bytes, .. } in other.connected(now) {
        let _ = replica.receive(&bytes, now);
    }
    let _ = replica.apply(&prepared, KEY, Op::Charge(1), now);
    let mut spans = replica.leave(now).into_iter().filter_map(|out| {
        let Body::Delta(tallies) = Message::read(&out.bytes)?.body else { return None };
        Some(tallies.limits[0].keys[0].tallies[0].span)
    });
    spans.next_back().unwrap()
}

/// Notes the counts of a message that arrive in time.
fn note_heard(ledger: &mut Ledger, actor: Actor, now: u64, bytes: &[u8]) {
    let Some(Message { body: Body::Delta(tallies) | Body::Answer(tallies, _), .. }) =
        Message::read(bytes)
    else {
        return;
    };
    for key in tallies.limits.iter().flat_map(|limit| &limit.keys) {
        for tally in &key.tallies {
            // Only counts of buckets matter for longer than they are accepted.
            let life = (64 * tally.span).max(1_000_000);
            if (tally.slot + 1) * tally.span + life <= now {
                continue;
            }
            let whose = tallies.actors[tally.actor as usize];
            let heard = ledger.heard.entry((actor, whose, tally.slot)).or_default();
            *heard = (*heard).max(tally.charged);
        }
    }
}

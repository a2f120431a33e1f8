//! Sends, receives and compares counts.
//!
//! Changes are sent to all every `flush`, and immediately when a limit is nearly reached. Counts
//! are cumulative, so the message with the next change repeats the counts of a lost message. If no
//! change follows, comparing digests finds the difference, and the replica that finds it requests
//! the parts that differ. A new replica asks two peers for everything. Peers that meet, for the
//! first time or again, compare immediately.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate::Timestamp;

use super::{OVERFLOW, Replica, SHARDS};
use crate::replicated::counts::{Actor, Cell};
use crate::replicated::digest::{part_of, stir};
use crate::replicated::entry::{Carry, Entry, Untold};
use crate::replicated::limits::Held;
use crate::replicated::lock;
use crate::replicated::message::{Body, KeyTally, LONGEST_NAME, Message, PARTS, Tallies};
use crate::replicated::pack::{Packer, cell};
use crate::replicated::slot::Kind;

/// Counts that are further ahead come from a wrong clock.
const MAX_AHEAD: Duration = Duration::from_secs(10);

/// The number of peers that a new replica asks for everything.
const ASKED: usize = 2;

/// How long a new replica waits for answers, in multiples of the time to join.
const ANSWER_WAITS: u32 = 8;

/// A message to send.
///
/// See the example of [`Replica`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The receiver; `None` is everybody.
    pub to: Option<Actor>,
    /// The message.
    pub bytes: Vec<u8>,
}

/// The times at which things are due.
#[derive(Debug)]
pub(super) struct Plan {
    now: Timestamp,
    flushed: Timestamp,
    hello: Timestamp,
    compare: Timestamp,
    clean: Timestamp,
    /// When a peer may have become missing.
    look: Timestamp,
    next_shard: usize,
    random: u64,
    join: Join,
    warned: bool,
    warned_name: bool,
    /// Missing nodes that were logged.
    pub(super) missing: BTreeSet<String>,
}

#[derive(Debug)]
enum Join {
    /// The bus was never connected.
    Apart,
    /// Waits for peers until then, and for the answers of those that it has asked.
    Asking {
        until: Timestamp,
        asked: BTreeSet<Actor>,
        answered: usize,
    },
    Ready,
}

impl Plan {
    pub(super) fn new(own: Actor) -> Plan {
        let begin = Timestamp::EPOCH;
        Plan {
            now: begin,
            flushed: begin,
            hello: begin,
            compare: begin,
            clean: begin,
            look: Timestamp::from_micros(u64::MAX),
            next_shard: 0,
            random: own,
            join: Join::Apart,
            warned: false,
            warned_name: false,
            missing: BTreeSet::new(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.join, Join::Ready)
    }

    /// A random time between three and five quarters of `span`, so that replicas do not compare at
    /// the same time.
    fn about(&mut self, span: Duration) -> Duration {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let sixteenths = 12 + (stir(self.random) % 9) as u32;
        span / 16 * sixteenths
    }
}

impl Replica {
    /// The bus is connected, for the first time or again: peers are greeted, and counts are
    /// compared.
    ///
    /// See the example of [`Replica`].
    pub fn connected(&self, now: Timestamp) -> Vec<Outgoing> {
        self.connected.store(true, Ordering::Relaxed);
        let mut plan = lock(&self.plan);
        plan.now = plan.now.max(now);
        plan.hello = now + self.settings.heartbeat;
        plan.compare = now + plan.about(self.settings.compare);
        if matches!(plan.join, Join::Apart) {
            let until = now + self.settings.join;
            plan.join = Join::Asking { until, asked: BTreeSet::new(), answered: 0 };
            return vec![self.to_all(self.hello())];
        }
        drop(plan);
        vec![self.to_all(self.hello()), self.to_all(self.digests_at(now, true))]
    }

    /// The bus is disconnected. No peer can be heard, so all present peers are missing immediately.
    /// They are present again as soon as a message arrives.
    ///
    /// ```
    /// # use tollgate::Timestamp;
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// let replica = Replica::new(1, Settings::default());
    /// let _ = replica.connected(Timestamp::EPOCH);
    /// assert!(replica.check(Timestamp::EPOCH).is_ok());
    /// replica.disconnected(Timestamp::EPOCH);
    /// assert!(replica.check(Timestamp::EPOCH).is_err());
    /// ```
    pub fn disconnected(&self, now: Timestamp) {
        if self.connected.swap(false, Ordering::Relaxed) {
            tracing::warn!("the bus is not connected: this node does not hear the others");
        }
        lock(&self.peers).cut_off();
        self.look_around(self.is_ready(), now);
    }

    fn hello(&self) -> Body {
        Body::Hello(self.settings.node.clone())
    }

    /// Returns the last messages to all peers: the counts that were not sent yet, and the message
    /// that this replica leaves.
    ///
    /// ```
    /// # use tollgate::Timestamp;
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// assert_eq!(Replica::new(1, Settings::default()).leave(Timestamp::EPOCH).len(), 1);
    /// ```
    #[must_use]
    pub fn leave(&self, now: Timestamp) -> Vec<Outgoing> {
        let mut out = self.tell(now);
        out.push(self.to_all(Body::Bye));
        out
    }

    /// Whether [`tick`](Replica::tick) should be called sooner than usual, because a limit is
    /// nearly reached.
    ///
    /// ```
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// assert!(!Replica::new(1, Settings::default()).is_hurried());
    /// ```
    #[must_use]
    pub fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Acquire)
    }

    /// When [`tick`](Replica::tick) is due if nothing happens before.
    ///
    /// See the example of [`Replica`].
    #[must_use]
    pub fn next_tick(&self) -> Timestamp {
        let plan = lock(&self.plan);
        let mut next = plan.hello.min(plan.compare).min(plan.clean).min(plan.look);
        if let Join::Asking { until, .. } = plan.join {
            next = next.min(if until > plan.now { until } else { plan.now + self.settings.join });
        }
        if self.has_untold() {
            next = next.min(plan.flushed + self.pause());
        }
        next
    }

    /// Whether there are untold changes.
    pub(crate) fn has_untold(&self) -> bool {
        self.untold.any() || self.untold_overflow.load(Ordering::Acquire)
    }

    /// The shortest time between two flushes.
    pub(crate) fn shortest_pause(&self) -> Duration {
        self.settings.hurry.min(self.settings.flush)
    }

    /// Whether the counts of the present peers have been fetched.
    pub(crate) fn is_ready(&self) -> bool {
        lock(&self.plan).is_ready()
    }

    /// The time to the next flush.
    fn pause(&self) -> Duration {
        if self.is_hurried() { self.shortest_pause() } else { self.settings.flush }
    }

    /// Does everything that is due.
    ///
    /// See the example of [`Replica`].
    #[must_use]
    pub fn tick(&self, now: Timestamp) -> Vec<Outgoing> {
        let mut out = Vec::new();
        let mut plan = lock(&self.plan);
        plan.now = plan.now.max(now);
        let tell = self.has_untold() && now >= plan.flushed + self.pause();
        if tell {
            plan.flushed = now;
        }
        let hello = now >= plan.hello;
        if hello {
            plan.hello = now + self.settings.heartbeat;
            out.push(self.to_all(self.hello()));
        }
        let look = hello || now >= plan.look;
        let compare = now >= plan.compare;
        if compare {
            plan.compare = now + plan.about(self.settings.compare);
        }
        self.go_on_joining(&mut plan, now);
        let ready = plan.is_ready();
        let clean = (now >= plan.clean).then(|| {
            plan.clean = now + self.settings.clean / SHARDS as u32;
            plan.next_shard = (plan.next_shard + 1) % SHARDS;
            plan.next_shard
        });
        drop(plan);
        if look {
            self.look_around(ready, now);
        }
        if tell {
            out.extend(self.tell(now));
        }
        if compare && self.accompanied.load(Ordering::Relaxed) {
            out.push(self.to_all(self.digests_at(now, false)));
        }
        if let Some(shard) = clean {
            self.clean(shard, now);
        }
        out
    }

    fn go_on_joining(&self, plan: &mut Plan, now: Timestamp) {
        let Join::Asking { until, asked, answered } = &plan.join else { return };
        let all = *answered >= ASKED || now >= *until && *answered >= asked.len();
        if all || now >= *until + self.settings.join * ANSWER_WAITS {
            plan.join = Join::Ready;
            self.set_gate(true, &lock(&self.peers), now);
        }
    }

    /// Updates the list of peers and all that depends on it.
    fn look_around(&self, ready: bool, now: Timestamp) {
        let limits = self.limits.all();
        let longest = limits.iter().map(|held| held.longest.load(Ordering::Relaxed)).max();
        let memory = self.settings.memory.max(Duration::from_micros(longest.unwrap_or(0)));
        let mut peers = lock(&self.peers);
        peers.look(now, self.settings.patience(), memory);
        self.accompanied.store(peers.here() > 0, Ordering::Relaxed);
        let lag = peers.longest_silence(now) + self.settings.flush;
        self.lag.store(u64::try_from(lag.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.set_gate(ready, &peers, now);
        for held in limits {
            let starts = 1 + peers.within(now, held.longest.load(Ordering::Relaxed)) as u64;
            held.starts.store(starts, Ordering::Relaxed);
        }
        let next = peers.next_look(self.settings.patience());
        let missing = peers.missing(now, self.settings.memory);
        drop(peers);
        let mut plan = lock(&self.plan);
        plan.look = next.unwrap_or(Timestamp::from_micros(u64::MAX));
        self.log_missing(&mut plan, missing);
    }

    fn clean(&self, shard: usize, now: Timestamp) {
        let removed = lock(&self.shards[shard]).remove_if(|entry| entry.is_over(now));
        self.keys.fetch_sub(removed, Ordering::Relaxed);
        if shard > 0 {
            return;
        }
        for held in self.limits.all() {
            let mut overflow = lock(&held.overflow);
            if overflow.as_mut().is_some_and(|entry| entry.is_over(now)) {
                *overflow = None;
                held.overflows.store(false, Ordering::Release);
            }
        }
        self.limits.forget_unused();
    }

    /// Messages with all untold counts.
    fn tell(&self, now: Timestamp) -> Vec<Outgoing> {
        self.hurried.store(false, Ordering::Release);
        let mut packer = Packer::default();
        for at in self.untold.take() {
            let mut shard = lock(&self.shards[at]);
            for number in std::mem::take(&mut shard.untold) {
                if let Some(entry) = shard.entry_if_there(number) {
                    let cells = entry.tell(self.own, now);
                    packer.push(entry, None, &cells);
                }
            }
        }
        let overflows = self.untold_overflow.swap(false, Ordering::AcqRel);
        for held in self.limits.all().iter().filter(|_| overflows) {
            if let Some(overflow) = &mut *lock(&held.overflow) {
                let cells = overflow.tell(self.own, now);
                packer.push(overflow, None, &cells);
            }
        }
        if !self.accompanied.load(Ordering::Relaxed) {
            // The list of peers is empty, and a new peer asks for everything.
            return Vec::new();
        }
        packer.finish().into_iter().map(|tallies| self.to_all(Body::Delta(tallies))).collect()
    }

    /// Handles a message, and returns the answers.
    ///
    /// See the example of [`Replica`].
    pub fn receive(&self, bytes: &[u8], now: Timestamp) -> Vec<Outgoing> {
        self.counters.received.add(1);
        self.counters.received_bytes.add(bytes.len() as u64);
        let Some(Message { from, body }) = Message::read(bytes) else {
            self.counters.ignored.add(1);
            if !std::mem::replace(&mut lock(&self.plan).warned, true) {
                let length = bytes.len();
                tracing::warn!(
                    length,
                    "ignored a message that is not valid or has another version"
                );
            }
            return Vec::new();
        };
        if from == self.own {
            return Vec::new();
        }
        let mut out = self.hear(from, &body, now);
        match body {
            Body::Hello(node) => self.note_name(from, &node, now),
            Body::Delta(tallies) => self.merge(&tallies, from, now),
            Body::Answer(tallies, last) => {
                self.merge(&tallies, from, now);
                if last {
                    self.answered(from, now);
                }
            }
            Body::Digests { at, parts, back } => {
                out.extend(self.compare(from, Timestamp::from_micros(at), &parts, back));
            }
            Body::Ask(parts) => out.extend(self.answer(from, parts, now)),
            Body::Bye => {
                lock(&self.peers).left(from);
                let ready = lock(&self.plan).is_ready();
                self.look_around(ready, now);
            }
        }
        out
    }

    /// Notes the sender of a message. Peers that meet send each other their names and compare
    /// counts.
    fn hear(&self, from: Actor, body: &Body, now: Timestamp) -> Vec<Outgoing> {
        if !lock(&self.peers).heard(from, now) {
            return Vec::new();
        }
        if *body == Body::Bye {
            return Vec::new();
        }
        let mut out = vec![self.to(from, self.hello())];
        let mut plan = lock(&self.plan);
        plan.now = plan.now.max(now);
        let ready = plan.is_ready();
        if let Join::Asking { asked, .. } = &mut plan.join
            && asked.len() < ASKED
        {
            asked.insert(from);
            out.push(self.to(from, Body::Ask(u64::MAX)));
        }
        drop(plan);
        self.look_around(ready, now);
        out.push(self.to(from, self.digests_at(now, true)));
        out
    }

    /// Notes the name of a peer's node, which may be a new start of a missing one.
    fn note_name(&self, from: Actor, node: &str, now: Timestamp) {
        if node.len() > LONGEST_NAME {
            return;
        }
        let mut peers = lock(&self.peers);
        let same_as_own = peers.named(from, node);
        let any_missing = !peers.missing(now, self.settings.memory).is_empty();
        drop(peers);
        if any_missing {
            self.look_around(self.is_ready(), now);
        }
        if same_as_own && !std::mem::replace(&mut lock(&self.plan).warned_name, true) {
            tracing::warn!(
                node,
                "another running process has the name of this node: a crash of one of them will not be noticed; give each its own replica.name"
            );
        }
    }

    fn answered(&self, from: Actor, now: Timestamp) {
        let mut plan = lock(&self.plan);
        if let Join::Asking { asked, answered, .. } = &mut plan.join
            && asked.contains(&from)
        {
            *answered += 1;
        }
        self.go_on_joining(&mut plan, now);
    }

    /// Asks for the parts that differ.
    fn compare(&self, from: Actor, at: Timestamp, parts: &[u64], back: bool) -> Vec<Outgoing> {
        if parts.len() != PARTS || !self.is_ready() {
            return Vec::new();
        }
        let own = self.digests(at);
        let bit = |index: usize| u64::from(own[index] != parts[index]) << index;
        let bits = (0..PARTS).map(bit).fold(0, std::ops::BitOr::bitor);
        if bits == 0 {
            return Vec::new();
        }
        self.counters.mismatched.add(u64::from(bits.count_ones()));
        let mut out = vec![self.to(from, Body::Ask(bits))];
        if back {
            let parts = own.to_vec();
            out.push(self.to(from, Body::Digests { at: at.as_micros(), parts, back: false }));
        }
        out
    }

    /// All counts of these parts.
    fn answer(&self, to: Actor, parts: u64, now: Timestamp) -> Vec<Outgoing> {
        let mut packer = Packer::default();
        self.each_entry(|entry| {
            if parts >> part_of(entry) & 1 == 0 {
                return;
            }
            let carry = Some(entry.carry).filter(|carry| carry.until > now);
            let alive = |cell: &&Cell| !cell.slot.is_dead(entry.held.kind, now);
            let cells: Vec<_> = entry.counts.cells().iter().filter(alive).copied().collect();
            packer.push(entry, carry, &cells);
        });
        let mut all = packer.finish();
        let last = all.pop().unwrap_or_default();
        let mut out: Vec<_> =
            all.into_iter().map(|tallies| self.to(to, Body::Answer(tallies, false))).collect();
        out.push(self.to(to, Body::Answer(last, true)));
        out
    }

    fn merge(&self, tallies: &Tallies, from: Actor, now: Timestamp) {
        let mut news = BTreeSet::new();
        for limit in &tallies.limits {
            let Some(kind) = Kind::ALL.get(usize::from(limit.kind)) else { continue };
            let held = self.limits.held(*kind, &limit.place);
            for key in &limit.keys {
                let cells = self.cells_of(key, tallies, &held, now);
                for cell in cells.iter().filter(|cell| cell.actor != from) {
                    news.insert((cell.actor, cell.slot.last().min(now)));
                }
                self.merge_key(&held, key, &cells, now);
            }
        }
        let mut peers = lock(&self.peers);
        for (actor, until) in news {
            if actor != self.own {
                peers.served(actor, until);
            }
        }
    }

    /// The counts of a key that are alive and not too far ahead.
    fn cells_of(
        &self,
        key: &KeyTally,
        tallies: &Tallies,
        held: &Held,
        now: Timestamp,
    ) -> Vec<Cell> {
        let horizon = now + MAX_AHEAD;
        let mut cells = Vec::with_capacity(key.tallies.len());
        for cell in key.tallies.iter().filter_map(|tally| cell(tally, &tallies.actors)) {
            if cell.slot.start() > horizon {
                self.counters.ahead.add(1);
            } else if !cell.slot.is_dead(held.kind, now) {
                held.note_span(cell.slot.span);
                cells.push(cell);
            }
        }
        cells
    }

    fn merge_key(&self, held: &Arc<Held>, key: &KeyTally, cells: &[Cell], now: Timestamp) {
        let carry = key.carry.map(|(until, folded)| Carry {
            until: Timestamp::from_micros(until),
            folded: Timestamp::from_micros(folded).min(now + MAX_AHEAD),
        });
        let carry = carry.filter(|carry| carry.until > now && held.kind == Kind::Bucket);
        if cells.is_empty() && carry.is_none() {
            return;
        }
        if key.key[..] == OVERFLOW {
            let mut overflow = lock(&held.overflow);
            let entry = overflow.get_or_insert_with(|| Entry::new(Arc::clone(held), &OVERFLOW));
            held.overflows.store(true, Ordering::Release);
            self.merge_entry(entry, carry, cells, now);
            if entry.untold != Untold::Nothing {
                self.untold_overflow.store(true, Ordering::Release);
            }
            return;
        }
        let Some((form, bytes)) = key.key.split_first() else { return };
        let spot = self.spot_of(held, *form, bytes, tollgate::KeyRef::plain(bytes));
        let mut shard = lock(&self.shards[spot.shard]);
        let number = match shard.find(spot.hash, held, *form, bytes) {
            Some(number) => number,
            None if self.take_room() => {
                shard.insert(spot.hash, Entry::new(Arc::clone(held), &key.key))
            }
            None => return self.counters.no_room.add(1),
        };
        self.merge_entry(shard.entry(number), carry, cells, now);
        self.note_untold(spot.shard, &mut shard, number);
    }

    fn merge_entry(&self, entry: &mut Entry, carry: Option<Carry>, cells: &[Cell], now: Timestamp) {
        if let Some(carry) = carry {
            entry.merge_carry(carry);
        }
        let mut merged = 0;
        for cell in cells {
            if !entry.is_past(cell.slot, now) {
                merged += u64::from(entry.merge(*cell, self.own));
            }
        }
        self.counters.merged.add(merged);
    }

    fn digests_at(&self, now: Timestamp, back: bool) -> Body {
        Body::Digests { at: now.as_micros(), parts: self.digests(now).to_vec(), back }
    }

    fn to_all(&self, body: Body) -> Outgoing {
        self.outgoing(None, body)
    }

    fn to(&self, actor: Actor, body: Body) -> Outgoing {
        self.outgoing(Some(actor), body)
    }

    fn outgoing(&self, to: Option<Actor>, body: Body) -> Outgoing {
        let bytes = Message { from: self.own, body }.write();
        self.counters.sent.add(1);
        self.counters.sent_bytes.add(bytes.len() as u64);
        Outgoing { to, bytes }
    }
}

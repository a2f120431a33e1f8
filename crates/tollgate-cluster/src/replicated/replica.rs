//! The core of a replica, without I/O and without a clock.

mod exchange;
mod gate;
mod health;

use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::quality::FixedState;
use tollgate::algorithm::{Act, Op, Part, hit_together};
use tollgate::shared::HitItem;
use tollgate::{Error, KeyRef, Limit, Outcome, Source, Timestamp};

use super::counts::Actor;
use super::digest;
use super::entry::{Entry, Untold};
use super::limits::{Held, Limits, Prepared};
use super::lock;
use super::marks::Marks;
use super::message::PARTS;
use super::peers::Peers;
use super::settings::Settings;
use super::shard::Shard;
use super::stats::{Counters, ReplicaStats};
pub use exchange::Outgoing;
use exchange::Plan;
use gate::Gated;

const SHARDS: usize = 256;

/// The key that unknown keys share while there is no room. No form of a key has this number.
const OVERFLOW: [u8; 1] = [u8::MAX];

/// Decides for one process, and synchronizes with its peers by messages. It does no I/O and reads
/// no clock: the owner passes the time, carries the messages, and calls [`tick`](Replica::tick)
/// when it is due. [`Replicated`](super::Replicated) does all that; this type is for tests and
/// other transports.
///
/// ```
/// use tollgate::{KeyRef, Timestamp, algorithm::Op};
/// use tollgate_cluster::replicated::{Replica, Settings};
///
/// let (now, key) = (Timestamp::from_micros(1_000_000), KeyRef::plain(b"alice"));
/// let replicas = [Replica::new(1, Settings::default()), Replica::new(2, Settings::default())];
/// let limit = "1/minute fixed-window".parse()?;
/// let limits = [replicas[0].prepare("", &limit)?, replicas[1].prepare("", &limit)?];
///
/// // They connect, one of them counts, and the other receives the count.
/// for message in replicas[0].connected(now) {
///     replicas[1].receive(&message.bytes, now);
/// }
/// for message in replicas[1].connected(now) {
///     replicas[0].receive(&message.bytes, now);
/// }
/// assert!(replicas[0].apply(&limits[0], key, Op::Hit(1), now).allowed());
/// for message in replicas[0].tick(now + std::time::Duration::from_millis(20)) {
///     replicas[1].receive(&message.bytes, now);
/// }
/// assert!(!replicas[1].apply(&limits[1], key, Op::Hit(1), now).allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Debug)]
pub struct Replica {
    own: Actor,
    settings: Settings,
    limits: Limits,
    shards: Box<[Mutex<Shard>]>,
    hasher: FixedState,
    keys: AtomicUsize,
    peers: Mutex<Peers>,
    plan: Mutex<Plan>,
    /// The share of the limit that hits must keep to: see [`gate`].
    gate: AtomicU64,
    /// For how many microseconds messages of present peers may have been missed.
    lag: AtomicU64,
    /// Whether the bus is connected.
    connected: AtomicBool,
    /// Whether any peer is present.
    accompanied: AtomicBool,
    /// Whether a limit is nearly reached, so that counts should be sent immediately.
    hurried: AtomicBool,
    /// Shards with counts that were not yet sent, and whether an overflow entry has such counts.
    untold: Marks,
    untold_overflow: AtomicBool,
    counters: Counters,
}

/// The place of a key.
#[derive(Clone, Copy)]
struct Spot<'a> {
    hash: u64,
    shard: usize,
    key: KeyRef<'a>,
}

impl Replica {
    /// A replica of this name, which must be random and new with each start of a process.
    ///
    /// See the example of [`Replica`].
    #[must_use]
    pub fn new(own: Actor, settings: Settings) -> Replica {
        Replica {
            own,
            limits: Limits::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: FixedState::with_seed(own),
            keys: AtomicUsize::new(0),
            peers: Mutex::new(Peers::new(&settings.node)),
            plan: Mutex::new(Plan::new(own)),
            gate: AtomicU64::new(gate::joining(&settings)),
            lag: AtomicU64::new(0),
            connected: AtomicBool::new(false),
            accompanied: AtomicBool::new(false),
            hurried: AtomicBool::new(false),
            untold: Marks::default(),
            untold_overflow: AtomicBool::new(false),
            counters: Counters::default(),
            settings,
        }
    }

    /// The random name of this start.
    ///
    /// ```
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// assert_eq!(Replica::new(7, Settings::default()).actor(), 7);
    /// ```
    #[must_use]
    pub fn actor(&self) -> Actor {
        self.own
    }

    /// Accepts a limit in a namespace.
    ///
    /// # Errors
    /// When its counts do not merge (elastic windows, windows that start with a key's first hit,
    /// `charge_denied`), and at [`Settings::max_limits`].
    ///
    /// See the example of [`Replica`].
    pub fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        let prepared = self.limits.prepare(namespace, limit, self.settings.max_limits)?;
        self.renew_starts(&prepared.held);
        Ok(prepared)
    }

    /// One operation on one key. With [`Op::Reset`] peers forget the counts that are known here.
    ///
    /// ```
    /// # use tollgate::{KeyRef, Timestamp, algorithm::Op};
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// let replica = Replica::new(1, Settings::default());
    /// let (limit, key) = (replica.prepare("", &"1/minute".parse()?)?, KeyRef::plain(b"a"));
    /// assert!(replica.apply(&limit, key, Op::Hit(1), Timestamp::EPOCH).allowed());
    /// assert!(replica.apply(&limit, key, Op::Reset, Timestamp::EPOCH).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn apply(&self, prepared: &Prepared, key: KeyRef<'_>, op: Op, now: Timestamp) -> Outcome {
        let spot = self.spot(&prepared.held, key);
        let mut shard = lock(&self.shards[spot.shard]);
        self.act(&mut shard, prepared, spot, now, Act::Op(op))
    }

    /// Hits all or none. No two hits may have the same limit and key.
    ///
    /// ```
    /// # use tollgate::{KeyRef, Timestamp, shared::HitItem};
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// let replica = Replica::new(1, Settings::default());
    /// let limit = replica.prepare("", &"1/minute".parse()?)?;
    /// let hit = |key, cost| HitItem { prepared: &limit, key: KeyRef::plain(key), cost };
    /// let decisions = replica.together(&[hit(b"a", 1), hit(b"b", 2)], Timestamp::EPOCH);
    /// assert!(!decisions[1].allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn together(&self, hits: &[HitItem<'_, Prepared>], now: Timestamp) -> Vec<Outcome> {
        let spots: Vec<_> = hits.iter().map(|hit| self.spot(&hit.prepared.held, hit.key)).collect();
        let mut order: Vec<_> = spots.iter().map(|spot| spot.shard).collect();
        order.sort_unstable();
        order.dedup();
        let mut locked: Vec<MutexGuard<'_, Shard>> =
            order.iter().map(|shard| lock(&self.shards[*shard])).collect();
        let Ok(outcomes): Result<_, Infallible> =
            // Replicas refuse bans.
            hit_together(hits.iter().map(|hit| Part::new(hit.cost)), |hit, act| {
                let at = order.binary_search(&spots[hit].shard).unwrap_or_default();
                Ok(self.act(&mut locked[at], hits[hit].prepared, spots[hit], now, act))
            });
        outcomes
    }

    /// Forgets all keys of a limit, here and on the peers, as [`Op::Reset`] does.
    ///
    /// ```
    /// # use tollgate::{KeyRef, Timestamp, algorithm::Op};
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// let replica = Replica::new(1, Settings::default());
    /// let (limit, key) = (replica.prepare("", &"1/minute".parse()?)?, KeyRef::plain(b"a"));
    /// assert!(replica.apply(&limit, key, Op::Hit(1), Timestamp::EPOCH).allowed());
    /// replica.clear(&limit, Timestamp::EPOCH);
    /// assert!(replica.apply(&limit, key, Op::Hit(1), Timestamp::EPOCH).allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn clear(&self, prepared: &Prepared, now: Timestamp) {
        for (at, shard) in self.shards.iter().enumerate() {
            let mut shard = lock(shard);
            for number in shard.numbers() {
                let entry = shard.entry(number);
                if Arc::ptr_eq(&entry.held, &prepared.held) {
                    entry.apply(prepared, self.own, now, Act::Op(Op::Reset));
                    self.note_untold(at, &mut shard, number);
                }
            }
        }
        if let Some(overflow) = &mut *lock(&prepared.held.overflow) {
            overflow.apply(prepared, self.own, now, Act::Op(Op::Reset));
            self.untold_overflow.store(true, Ordering::Release);
        }
    }

    /// The statistics.
    ///
    /// ```
    /// # use tollgate::Timestamp;
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// assert_eq!(Replica::new(1, Settings::default()).stats(Timestamp::EPOCH).keys, 0);
    /// ```
    #[must_use]
    pub fn stats(&self, now: Timestamp) -> ReplicaStats {
        let ready = lock(&self.plan).is_ready();
        let peers = lock(&self.peers);
        let bound = |held: Arc<Held>| {
            let rules = held.rules()?;
            Some(self.unseen(&held, rules.machine.capacity(), 0))
        };
        let counters = &self.counters;
        ReplicaStats {
            peers: peers.here() as u64,
            missing: peers.missing(now, self.settings.memory).len() as u64,
            lag: peers.longest_silence(now),
            bound: self.limits.all().into_iter().filter_map(bound).max().unwrap_or(0),
            keys: self.keys.load(Ordering::Relaxed) as u64,
            ready,
            connected: self.is_connected(),
            sent: counters.sent.value(),
            sent_bytes: counters.sent_bytes.value(),
            received: counters.received.value(),
            received_bytes: counters.received_bytes.value(),
            ignored: counters.ignored.value(),
            ahead: counters.ahead.value(),
            merged: counters.merged.value(),
            mismatched: counters.mismatched.value(),
            no_room: counters.no_room.value(),
        }
    }

    /// Digests of all counts that are alive at a time, in parts. They are equal on replicas with
    /// equal counts.
    ///
    /// ```
    /// # use tollgate::Timestamp;
    /// # use tollgate_cluster::replicated::{Replica, Settings};
    /// let (a, b) = (Replica::new(1, Settings::default()), Replica::new(2, Settings::default()));
    /// assert_eq!(a.digests(Timestamp::EPOCH), b.digests(Timestamp::EPOCH));
    /// ```
    #[must_use]
    pub fn digests(&self, at: Timestamp) -> [u64; PARTS] {
        let mut digests = [0; PARTS];
        self.each_entry(|entry| digest::add(&mut digests, entry, at));
        digests
    }

    fn each_entry(&self, mut look: impl FnMut(&Entry)) {
        for shard in &self.shards {
            lock(shard).all().for_each(&mut look);
        }
        for held in self.limits.all() {
            if let Some(overflow) = &*lock(&held.overflow) {
                look(overflow);
            }
        }
    }

    fn spot<'a>(&self, held: &Held, key: KeyRef<'a>) -> Spot<'a> {
        self.spot_of(held, key.form() as u8, key.bytes(), key)
    }

    fn spot_of<'a>(&self, held: &Held, form: u8, bytes: &[u8], key: KeyRef<'a>) -> Spot<'a> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(held.number);
        hasher.write_u8(form);
        hasher.write(bytes);
        let hash = hasher.finish();
        // The table of the shard uses the highest and the lowest bits.
        Spot { hash, shard: (hash >> 32) as usize % SHARDS, key }
    }

    /// Does one operation under the lock of its shard.
    fn act(
        &self,
        shard: &mut Shard,
        prepared: &Prepared,
        spot: Spot<'_>,
        now: Timestamp,
        act: Act,
    ) -> Outcome {
        let Spot { hash, key, .. } = spot;
        if let Some(number) = shard.find(hash, &prepared.held, key.form() as u8, key.bytes()) {
            let decision = self.decide(shard.entry(number), prepared, now, act);
            self.note_untold(spot.shard, shard, number);
            return decision;
        }
        // A reset leaves the overflow entry alone, which belongs to other keys as well.
        let is_reset = act == Act::Op(Op::Reset);
        if prepared.held.overflows.load(Ordering::Acquire) && !is_reset {
            return self.act_on_overflow(prepared, now, act);
        }
        let mut entry = Entry::new(Arc::clone(&prepared.held), &[]);
        let decision = self.decide(&mut entry, prepared, now, act);
        if entry.is_untouched() {
            // A key that was only peeked at or denied needs no entry.
            return decision;
        }
        if !self.take_room() {
            return self.act_on_overflow(prepared, now, act);
        }
        entry.key = [&[key.form() as u8], key.bytes()].concat().into();
        let number = shard.insert(hash, entry);
        self.note_untold(spot.shard, shard, number);
        decision
    }

    fn take_room(&self) -> bool {
        let max = self.settings.max_keys;
        let more = |keys| if keys < max { Some(keys + 1) } else { None };
        self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn act_on_overflow(&self, prepared: &Prepared, now: Timestamp, act: Act) -> Outcome {
        let held = &prepared.held;
        let mut overflow = lock(&held.overflow);
        let entry = overflow.get_or_insert_with(|| Entry::new(Arc::clone(held), &OVERFLOW));
        held.overflows.store(true, Ordering::Release);
        let decision = self.decide(entry, prepared, now, act);
        if entry.untold != Untold::Nothing {
            self.untold_overflow.store(true, Ordering::Release);
        }
        decision.with_source(Source::Overflow)
    }

    fn decide(&self, entry: &mut Entry, prepared: &Prepared, now: Timestamp, act: Act) -> Outcome {
        let act = match self.gated(entry, prepared, now, act) {
            Gated::Pass(act) => act,
            Gated::Refuse(refusal) => return refusal,
        };
        let decision = entry.apply(prepared, self.own, now, act);
        if decision.charged() > 0 && self.accompanied.load(Ordering::Relaxed) {
            let fields = decision.fields();
            let near = u128::from(fields.used) * 10 >= u128::from(fields.limit) * 7;
            if near && !self.hurried.load(Ordering::Relaxed) {
                self.hurried.store(true, Ordering::Release);
            }
        }
        let known = entry.known(prepared, now);
        let bound = self.unseen(&entry.held, prepared.rules.machine.capacity(), known);
        decision.with_source(Source::Replica).with_bound(bound)
    }

    /// The most units that others may have admitted unseen: all that each start can have admitted
    /// alone, less what is known of it, and at most what was offered while messages could be
    /// missed.
    fn unseen(&self, held: &Held, capacity: u64, known: u64) -> u64 {
        let others = held.starts.load(Ordering::Relaxed).saturating_sub(1);
        let most = others.saturating_mul(capacity).saturating_sub(known);
        let Some(peak) = self.settings.peak.filter(|_| most > 0) else { return most };
        let lag = u128::from(self.lag.load(Ordering::Relaxed));
        let offered = (u128::from(peak) * lag).div_ceil(1_000_000);
        u64::try_from(offered).map_or(most, |offered| most.min(offered))
    }

    fn note_untold(&self, at: usize, shard: &mut Shard, number: u32) {
        let entry = shard.entry(number);
        if entry.untold == Untold::Nothing || std::mem::replace(&mut entry.listed, true) {
            return;
        }
        shard.untold.push(number);
        self.untold.mark(at);
    }

    fn renew_starts(&self, held: &Held) {
        let now = lock(&self.plan).now();
        let longest = held.longest.load(Ordering::Relaxed);
        let starts = 1 + lock(&self.peers).within(now, longest) as u64;
        held.starts.store(starts, Ordering::Relaxed);
    }
}

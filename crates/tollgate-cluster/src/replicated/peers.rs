//! Who else is there.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::Timestamp;

use super::counts::Actor;

/// A process other than this one, as far as messages tell.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// When something of it was last heard, or the end of its newest counts where it was never heard itself.
    last: Timestamp,
    presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Here,
    /// It has been silent for too long.
    Missing,
    /// It said goodbye, or only its counts were ever heard.
    Gone,
}

/// All peers.
#[derive(Debug, Default)]
pub(crate) struct Peers(BTreeMap<Actor, Peer>);

impl Peers {
    /// Something was heard; true if the peer was not here before.
    pub(crate) fn heard(&mut self, actor: Actor, now: Timestamp) -> bool {
        let here = Peer { last: now, presence: Presence::Here };
        let before = self.0.insert(actor, here);
        before.is_none_or(|peer| peer.presence != Presence::Here)
    }

    /// Counts of an actor were heard from somebody else: it has served until then.
    pub(crate) fn served(&mut self, actor: Actor, until: Timestamp) {
        let gone = Peer { last: until, presence: Presence::Gone };
        let peer = self.0.entry(actor).or_insert(gone);
        peer.last = peer.last.max(until);
    }

    pub(crate) fn left(&mut self, actor: Actor) {
        if let Some(peer) = self.0.get_mut(&actor) {
            peer.presence = Presence::Gone;
        }
    }

    /// Looks who has been silent for longer than `patience`, and forgets who has been for longer than `memory`.
    pub(crate) fn look(&mut self, now: Timestamp, patience: Duration, memory: Duration) {
        self.0.retain(|_, peer| now.since(peer.last) <= memory);
        for peer in self.0.values_mut() {
            if peer.presence == Presence::Here && now.since(peer.last) > patience {
                peer.presence = Presence::Missing;
            }
        }
    }

    pub(crate) fn here(&self) -> usize {
        self.0.values().filter(|peer| peer.presence == Presence::Here).count()
    }

    /// Those that are silent and were so for at most `memory`.
    pub(crate) fn missing(&self, now: Timestamp, memory: Duration) -> usize {
        let missing =
            |peer: &&Peer| peer.presence == Presence::Missing && now.since(peer.last) <= memory;
        self.0.values().filter(missing).count()
    }

    /// How many have been there within the last `span` microseconds.
    pub(crate) fn within(&self, now: Timestamp, span: u64) -> usize {
        let recent = |peer: &&Peer| peer.last.as_micros().saturating_add(span) >= now.as_micros();
        self.0.values().filter(recent).count()
    }

    /// The longest silence of those that are here.
    pub(crate) fn longest_silence(&self, now: Timestamp) -> Duration {
        let here = self.0.values().filter(|peer| peer.presence == Presence::Here);
        here.map(|peer| now.since(peer.last)).max().unwrap_or_default()
    }
}

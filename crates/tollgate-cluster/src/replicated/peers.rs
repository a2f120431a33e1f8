//! The other nodes, and which of them are silent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tollgate::Timestamp;
use tollgate::shared::FleetNode;

use super::counts::Actor;

/// Another process, as far as messages tell.
#[derive(Clone, Debug)]
struct Peer {
    /// The name of its node; empty if it has none or has not sent it yet.
    node: String,
    /// When its last message arrived. Its counts in messages of other peers are no sign of life.
    last: Timestamp,
    /// The latest time at which the peer is known to have served, from its messages and its counts.
    served: Timestamp,
    presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Here,
    /// It has been silent for too long.
    Missing,
    /// It sent the message that it leaves, its node started again, or no message of its own ever
    /// arrived, only its counts in messages of other peers.
    Gone,
}

impl Peer {
    fn unheard(served: Timestamp) -> Peer {
        Peer { node: String::new(), last: served, served, presence: Presence::Gone }
    }

    fn label(&self, actor: Actor) -> String {
        if self.node.is_empty() { format!("{actor:016x}") } else { self.node.clone() }
    }
}

/// A peer that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The name of its node, or its actor as a hexadecimal number if it has none.
    pub(crate) label: String,
    pub(crate) silence: Duration,
}

/// All peers.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// The name of this node.
    own: String,
    by_actor: BTreeMap<Actor, Peer>,
}

impl Peers {
    pub(crate) fn new(own: &str) -> Peers {
        Peers { own: own.to_owned(), by_actor: BTreeMap::new() }
    }

    /// Notes a message of a peer; true if the peer was not present before.
    pub(crate) fn heard(&mut self, actor: Actor, now: Timestamp) -> bool {
        let peer = self.by_actor.entry(actor).or_insert_with(|| Peer::unheard(now));
        peer.last = now;
        peer.served = peer.served.max(now);
        std::mem::replace(&mut peer.presence, Presence::Here) != Presence::Here
    }

    /// Notes the name of a peer's node; true if another running process has that name already. The
    /// own earlier starts do not count.
    pub(crate) fn named(&mut self, actor: Actor, node: &str) -> bool {
        if let Some(peer) = self.by_actor.get_mut(&actor)
            && peer.node != node
        {
            node.clone_into(&mut peer.node);
        }
        !node.is_empty() && node == self.own
    }

    /// Notes counts of an actor that another peer sent: the actor has served until then.
    pub(crate) fn served(&mut self, actor: Actor, until: Timestamp) {
        let peer = self.by_actor.entry(actor).or_insert_with(|| Peer::unheard(until));
        peer.served = peer.served.max(until);
    }

    pub(crate) fn left(&mut self, actor: Actor) {
        if let Some(peer) = self.by_actor.get_mut(&actor) {
            peer.presence = Presence::Gone;
        }
    }

    /// The bus is disconnected, so no peer can be heard.
    pub(crate) fn cut_off(&mut self) {
        for peer in self.by_actor.values_mut().filter(|peer| peer.presence == Presence::Here) {
            peer.presence = Presence::Missing;
        }
    }

    /// Marks peers as missing that have been silent for `patience`, and forgets those that have
    /// been for longer than `memory`. If a node has started again, its silent earlier start is not
    /// missing.
    pub(crate) fn look(&mut self, now: Timestamp, patience: Duration, memory: Duration) {
        self.by_actor.retain(|_, peer| now.since(peer.served) <= memory);
        for peer in self.by_actor.values_mut() {
            if peer.presence == Presence::Here && now.since(peer.last) >= patience {
                peer.presence = Presence::Missing;
            }
        }
        let here = self.by_actor.values().filter(|peer| peer.presence == Presence::Here);
        let mut running: BTreeSet<String> = here.map(|peer| peer.node.clone()).collect();
        running.insert(self.own.clone());
        running.remove("");
        for peer in self.by_actor.values_mut() {
            if peer.presence == Presence::Missing && running.contains(&peer.node) {
                peer.presence = Presence::Gone;
            }
        }
    }

    /// When the first of the present peers will have been silent for `patience`.
    pub(crate) fn next_look(&self, patience: Duration) -> Option<Timestamp> {
        let here = self.by_actor.values().filter(|peer| peer.presence == Presence::Here);
        here.map(|peer| peer.last + patience).min()
    }

    pub(crate) fn here(&self) -> usize {
        self.by_actor.values().filter(|peer| peer.presence == Presence::Here).count()
    }

    /// Nodes that have been silent for at most `memory`. Several silent starts of one node are one
    /// missing node, silent since the last of them.
    pub(crate) fn missing(&self, now: Timestamp, memory: Duration) -> Vec<Missing> {
        let mut silences = BTreeMap::new();
        for (actor, peer) in &self.by_actor {
            let silence = now.since(peer.last);
            if peer.presence == Presence::Missing && silence <= memory {
                let shortest = silences.entry(peer.label(*actor)).or_insert(silence);
                *shortest = silence.min(*shortest);
            }
        }
        silences.into_iter().map(|(label, silence)| Missing { label, silence }).collect()
    }

    /// The present and the missing nodes, by name.
    pub(crate) fn nodes(&self, now: Timestamp, memory: Duration) -> Vec<FleetNode> {
        let here = self.by_actor.iter().filter(|(_, peer)| peer.presence == Presence::Here);
        let here = here
            .map(|(actor, peer)| FleetNode::new(peer.label(*actor), now.since(peer.last), false));
        let missing = self.missing(now, memory).into_iter();
        let missing =
            missing.map(|Missing { label, silence }| FleetNode::new(label, silence, true));
        let mut nodes: Vec<_> = here.chain(missing).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        nodes
    }

    /// The number of actors that served within the last `span` microseconds.
    pub(crate) fn within(&self, now: Timestamp, span: u64) -> usize {
        let recent = |peer: &&Peer| peer.served.as_micros().saturating_add(span) >= now.as_micros();
        self.by_actor.values().filter(recent).count()
    }

    /// The longest silence of a present peer.
    pub(crate) fn longest_silence(&self, now: Timestamp) -> Duration {
        let here = self.by_actor.values().filter(|peer| peer.presence == Presence::Here);
        here.map(|peer| now.since(peer.last)).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(3);
    const MEMORY: Duration = Duration::from_secs(900);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000 * (1_000 + seconds))
    }

    fn hello(peers: &mut Peers, actor: Actor, node: &str, seconds: u64) {
        let _ = peers.heard(actor, at(seconds));
        let _ = peers.named(actor, node);
    }

    fn missing(peers: &mut Peers, seconds: u64) -> Vec<String> {
        peers.look(at(seconds), PATIENCE, MEMORY);
        let missing = peers.missing(at(seconds), MEMORY);
        missing.into_iter().map(|missing| missing.label).collect()
    }

    #[test]
    fn a_new_start_of_a_node_replaces_a_silent_one() {
        let mut peers = Peers::new("here");
        hello(&mut peers, 1, "a", 0);
        hello(&mut peers, 2, "b", 9);
        assert_eq!(missing(&mut peers, 10), ["a"]);
        let silent = Duration::from_secs;
        let nodes = [FleetNode::new("a", silent(10), true), FleetNode::new("b", silent(1), false)];
        assert_eq!(peers.nodes(at(10), MEMORY), nodes);
        hello(&mut peers, 3, "a", 11);
        assert_eq!(missing(&mut peers, 11), [""; 0]);
        assert_eq!(peers.here(), 2);
    }

    #[test]
    fn a_node_that_starts_before_it_was_missed_is_never_missing() {
        let mut peers = Peers::new("here");
        hello(&mut peers, 1, "a", 0);
        hello(&mut peers, 2, "a", 1);
        for second in 2..10 {
            let _ = peers.heard(2, at(second));
            assert_eq!(missing(&mut peers, second), [""; 0]);
        }
        assert_eq!(peers.here(), 1);
    }

    #[test]
    fn several_silent_starts_of_a_named_node_count_as_one() {
        let mut peers = Peers::new("here");
        for (actor, second) in [(1, 0), (2, 1), (3, 2)] {
            hello(&mut peers, actor, "a", second);
        }
        assert_eq!(missing(&mut peers, 10), ["a"]);
        assert_eq!(peers.missing(at(10), MEMORY)[0].silence, Duration::from_secs(8));
    }

    #[test]
    fn each_silent_start_without_a_name_counts_as_a_node() {
        let mut peers = Peers::new("");
        hello(&mut peers, 1, "", 0);
        hello(&mut peers, 2, "", 1);
        assert_eq!(missing(&mut peers, 10), ["0000000000000001", "0000000000000002"]);
        assert_eq!(missing(&mut peers, 901), ["0000000000000002"]);
        assert_eq!(missing(&mut peers, 902), [""; 0]);
    }

    #[test]
    fn without_the_bus_all_peers_are_missing_immediately() {
        let mut peers = Peers::new("here");
        hello(&mut peers, 1, "a", 0);
        hello(&mut peers, 2, "b", 0);
        peers.left(2);
        peers.cut_off();
        assert_eq!(missing(&mut peers, 0), ["a"]);
        assert!(peers.heard(1, at(1)), "it is met again");
        assert_eq!(missing(&mut peers, 1), [""; 0]);
    }

    #[test]
    fn counts_sent_by_other_peers_are_no_sign_of_life() {
        let mut peers = Peers::new("here");
        hello(&mut peers, 1, "a", 0);
        peers.served(1, at(9));
        assert_eq!(missing(&mut peers, 9), ["a"]);
        assert_eq!(peers.within(at(10), 2_000_000), 1);
    }

    #[test]
    fn a_running_peer_with_the_name_of_this_node_is_detected() {
        let mut peers = Peers::new("here");
        let _ = peers.heard(1, at(0));
        assert!(peers.named(1, "here"));
        assert!(!peers.named(1, "there"));
        let mut unnamed = Peers::new("");
        let _ = unnamed.heard(1, at(0));
        assert!(!unnamed.named(1, ""));
    }
}

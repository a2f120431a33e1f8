//! The share of the limit that hits must keep to: all of it, a part while others are missing or not
//! heard yet, or nothing.

use std::sync::atomic::Ordering;

use std::time::Duration;

use tollgate::algorithm::{Act, Fields, Op, Step};
use tollgate::{Outcome, Source, Timestamp};

use super::Replica;
use crate::replicated::entry::Entry;
use crate::replicated::limits::Prepared;
use crate::replicated::peers::Peers;
use crate::replicated::settings::{OnMissing, Settings};

/// The whole limit.
const OPEN: u64 = 0;

/// Nothing passes. Any other number is the number of nodes that share the limit.
const CLOSED: u64 = u64::MAX;

/// When a client should retry while nothing passes.
const AGAIN: Duration = Duration::from_secs(1);

fn share(nodes: u64) -> u64 {
    if nodes > 1 { nodes } else { OPEN }
}

/// The gate of a new replica, which has heard from no peer.
pub(super) fn joining(settings: &Settings) -> u64 {
    share(u64::from(settings.nodes))
}

/// The result of the gate.
pub(super) enum Gated {
    Pass(Act),
    Refuse(Outcome),
}

impl Replica {
    /// Sets the share that hits must keep to.
    pub(super) fn set_gate(&self, ready: bool, peers: &Peers, now: Timestamp) {
        let missing = peers.missing(now, self.settings.memory).len() as u64;
        let nodes = 1 + peers.here() as u64 + missing;
        let gate = match self.settings.on_missing {
            _ if !ready => share(nodes.max(u64::from(self.settings.nodes))),
            OnMissing::Share if missing > 0 => share(nodes),
            OnMissing::Closed if missing > 0 => CLOSED,
            _ => OPEN,
        };
        self.gate.store(gate, Ordering::Relaxed);
    }

    /// The operation for the machine, or a denial.
    pub(super) fn gated(
        &self,
        entry: &Entry,
        prepared: &Prepared,
        now: Timestamp,
        act: Act,
    ) -> Gated {
        let gate = self.gate.load(Ordering::Relaxed);
        if gate == OPEN {
            return Gated::Pass(act);
        }
        let cost = match act {
            Act::Op(Op::Hit(cost) | Op::Peek(cost) | Op::Take(cost))
            | Act::TryHit(cost)
            | Act::DenyHit(cost) => cost,
            Act::Op(_) => return Gated::Pass(act),
        };
        let capacity = prepared.rules.machine.capacity();
        let refuse = |limit, used, cost, until| {
            let step = Step { allowed: false, cost, charged: 0, changed: false };
            let retry_at = (cost <= capacity).then_some(until);
            let remaining = limit - u64::min(used, limit);
            let fresh_at = (used > 0).then_some(until);
            let fields = Fields { limit, remaining, used, retry_at, fresh_at, mark: 0 };
            Outcome::of_fields(step, now, fields)
        };
        if gate == CLOSED {
            let refusal = refuse(capacity, capacity, cost, now + AGAIN);
            return Gated::Refuse(refusal.with_source(Source::FailClosed));
        }
        let share = (capacity / gate).max(1);
        let (used, first) = entry.own_units(prepared, self.own, now);
        let room = share.saturating_sub(used);
        match act {
            Act::Op(Op::Take(cost)) if room > 0 => Gated::Pass(Act::Op(Op::Take(cost.min(room)))),
            _ if cost <= room => Gated::Pass(act),
            _ => {
                let cost = if matches!(act, Act::Op(Op::Take(_))) { 1 } else { cost };
                let until = first.unwrap_or(now + AGAIN);
                let bound = self.unseen(&prepared.held, capacity, 0);
                let refusal = refuse(share, used, cost, until);
                Gated::Refuse(refusal.with_source(Source::Replica).with_bound(bound))
            }
        }
    }
}

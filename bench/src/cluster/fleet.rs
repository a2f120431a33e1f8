//! Three nodes that share a limit, each with its own connections.

use super::broadcast::Broadcast;
use crate::Outcome;
use crate::redis::server::Server;
use std::time::Duration;
use tollgate::shared::{Guard, SharedLimiter, SharedStore};
use tollgate::{Decision, Error, Limit};
use tollgate_cluster::{Leased, bus, replicated::Replicated};
use tollgate_redis::Redis;

pub(crate) const NODES: usize = 3;

/// Each fleet has its own key, so that none starts with the counts of another.
const KEY: &str = "k";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Exact,
    Leased,
    Replicated,
    Broadcast,
}

impl Mode {
    pub(crate) const ALL: [Mode; 4] =
        [Mode::Exact, Mode::Leased, Mode::Replicated, Mode::Broadcast];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Mode::Exact => "exact",
            Mode::Leased => "leased",
            Mode::Replicated => "replicated",
            Mode::Broadcast => "every hit broadcast",
        }
    }
}

pub(crate) enum Fleet {
    Exact(Vec<SharedLimiter<Redis>>),
    Leased(Vec<SharedLimiter<Leased<Redis>>>),
    Replicated(Vec<SharedLimiter<Replicated>>),
    Broadcast(Vec<Broadcast>),
}

impl Fleet {
    /// Starts a fleet with a limit per second.
    pub(crate) async fn start(mode: Mode, redis: &Server, quota: u64) -> Outcome<Fleet> {
        // Each fleet counts apart from earlier ones.
        static FLEETS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = FLEETS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let limit = Limit::per_second(quota)
            .algorithm(tollgate::Algorithm::FixedWindow)
            .name(format!("fleet {number}"))
            .build()?;
        let store = async || {
            let guard = Guard::builder().deadline(Duration::from_secs(10));
            Redis::builder(redis.url()).guard(guard).connect().await
        };
        let mut fleet = match mode {
            Mode::Exact => Fleet::Exact(Vec::new()),
            Mode::Leased => Fleet::Leased(Vec::new()),
            Mode::Replicated => Fleet::Replicated(Vec::new()),
            Mode::Broadcast => Fleet::Broadcast(Vec::new()),
        };
        for _ in 0..NODES {
            match &mut fleet {
                Fleet::Exact(nodes) => nodes.push(store().await?.limiter(limit.clone())?),
                Fleet::Leased(nodes) => {
                    let leased = Leased::builder(store().await?).nodes(NODES as u32).build();
                    nodes.push(leased.limiter(limit.clone())?);
                }
                Fleet::Replicated(nodes) => {
                    let bus = bus::open(&format!("{}#fleet{number}", redis.url()))?;
                    nodes.push(Replicated::builder(bus).start().await?.limiter(limit.clone())?);
                }
                Fleet::Broadcast(nodes) => {
                    nodes.push(Broadcast::start(redis, &format!("fleet{number}"), quota).await?);
                }
            }
        }
        Ok(fleet)
    }

    /// One hit at a node.
    pub(crate) async fn hit(&self, node: usize) -> Result<Answer, Error> {
        match self {
            Fleet::Exact(nodes) => Ok(Answer::of(&nodes[node].hit(KEY).await?)),
            Fleet::Leased(nodes) => Ok(Answer::of(&nodes[node].hit(KEY).await?)),
            Fleet::Replicated(nodes) => Ok(Answer::of(&nodes[node].hit(KEY).await?)),
            Fleet::Broadcast(nodes) => Ok(nodes[node].hit()),
        }
    }

    /// Calls on the server so far: questions, or messages to the other nodes.
    pub(crate) fn calls(&self) -> u64 {
        let answered = |store: &Redis| store.guard().stats().answered;
        match self {
            Fleet::Exact(nodes) => nodes.iter().map(|node| answered(node.store())).sum(),
            Fleet::Leased(nodes) => nodes.iter().map(|node| answered(node.store().store())).sum(),
            Fleet::Replicated(nodes) => nodes.iter().map(|node| node.store().stats().sent).sum(),
            Fleet::Broadcast(nodes) => nodes.iter().map(Broadcast::sent).sum(),
        }
    }
}

/// Whether a hit was admitted, and the second in which it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) window: u64,
}

impl Answer {
    fn of(decision: &Decision) -> Answer {
        Answer { allowed: decision.allowed(), window: decision.headline().receipt().mark }
    }
}

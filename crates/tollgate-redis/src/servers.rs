//! One server, a primary behind sentinels, or a cluster: chooses where a call of the script goes.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::{Cmd, RedisError, RedisResult, Value};
use tollgate::{Error, Outcome};

use crate::cluster::Cluster;
use crate::command::Call;
use crate::failure;
use crate::node::Node;
use crate::target::{Finder, Target};

/// A decision for each part of a call, or an error about its key; or the error of the whole call.
pub(crate) type CallResult = Result<Vec<Result<Outcome, Error>>, Error>;

#[derive(Clone, Debug)]
pub(crate) enum Servers {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

impl Servers {
    pub(crate) fn new(
        target: Target,
        connect_timeout: Duration,
        runtime: &tokio::runtime::Handle,
    ) -> Servers {
        let node = |finder| Servers::One(Node::new(finder, connect_timeout, runtime.clone()));
        match target {
            Target::Server(server) => node(Finder::Fixed(server)),
            Target::Sentinel { sentinels, name, primary } => {
                node(Finder::Primary { sentinels, name, primary })
            }
            Target::Cluster(seeds) => {
                Servers::Cluster(Cluster::new(seeds, connect_timeout, runtime.clone()))
            }
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Servers::Cluster(_))
    }

    /// Runs the script. All keys of the call are in one slot if this is a cluster.
    pub(crate) async fn run(&self, call: &Call) -> CallResult {
        if call.is_empty() {
            return Ok(Vec::new());
        }
        let reply = self.try_to(call).await;
        let try_again = |error: &RedisError| failure::is_try_again(error);
        if !matches!(&reply, Ok(Err(error)) if try_again(error)) {
            return call.decided(reply);
        }
        // Nothing was executed, because the slot is moving and some of the keys have moved. A
        // command with one key is executed by the node that has the key, so each key is sent alone.
        match call.by_key() {
            Some(calls) => Ok(Box::pin(self.run_each(&calls)).await),
            None => call.decided(reply),
        }
    }

    /// Runs calls with the parts of one; `calls` has their indexes.
    async fn run_each(&self, calls: &[(Vec<usize>, Call)]) -> Vec<Result<Outcome, Error>> {
        let replies = in_order(calls.iter().map(|(_, call)| self.try_to(call))).await;
        let mut decisions = BTreeMap::new();
        for ((indexes, call), reply) in calls.iter().zip(replies) {
            match call.decided(reply) {
                Ok(decided) => decisions.extend(indexes.iter().zip(decided)),
                Err(error) => {
                    decisions.extend(indexes.iter().map(|index| (index, Err(error.clone()))));
                }
            }
        }
        decisions.into_values().collect()
    }

    /// Runs the script for all these calls concurrently. They are started in order, so a key that
    /// appears twice is decided in that order.
    pub(crate) async fn run_all(&self, calls: Vec<&Call>) -> Vec<CallResult> {
        in_order(calls.into_iter().map(|call| self.run(call))).await
    }

    async fn try_to(&self, call: &Call) -> Result<RedisResult<Value>, Error> {
        match self {
            Servers::One(node) => node.send(&call.command(false), false).await,
            Servers::Cluster(cluster) => {
                let keys = call.keys();
                let command = |narrow| call.command(narrow);
                // In a box, because it is much larger than the other one.
                Box::pin(cluster.send(&keys, !call.is_hits(), command)).await
            }
        }
    }

    /// Sends a command with one key to the server that has it.
    pub(crate) async fn send(&self, key: &[u8], cmd: &Cmd) -> Result<RedisResult<Value>, Error> {
        match self {
            Servers::One(node) => node.send(cmd, false).await,
            Servers::Cluster(cluster) => cluster.send(&[key], true, |_| cmd.clone()).await,
        }
    }

    /// Waits while the server of a slot is being connected to.
    pub(crate) async fn connected(&self, slot: u16) {
        let node = match self {
            Servers::One(node) => Some(Arc::clone(node)),
            Servers::Cluster(cluster) => cluster.node_of(slot),
        };
        if let Some(node) = node {
            node.connected().await;
        }
    }

    /// All servers that have keys.
    pub(crate) async fn primaries(&self) -> Result<Vec<Arc<Node>>, Error> {
        match self {
            Servers::One(node) => Ok(vec![Arc::clone(node)]),
            Servers::Cluster(cluster) => cluster.primaries().await,
        }
    }

    /// The servers that can carry messages of pub/sub. A message that one of them gets reaches the
    /// subscribers of all.
    pub(crate) async fn carriers(&self) -> Result<Vec<Arc<Node>>, Error> {
        match self {
            Servers::Cluster(cluster) if !cluster.known().is_empty() => Ok(cluster.known()),
            Servers::One(_) | Servers::Cluster(_) => self.primaries().await,
        }
    }

    /// Whether a server answers: the server, or a node of the cluster that returns the slot map. A
    /// program can start while one node of a cluster is down.
    pub(crate) async fn reachable(&self) -> Result<(), Error> {
        match self {
            Servers::One(_) => self.check().await,
            Servers::Cluster(cluster) => cluster.primaries().await.map(|_| ()),
        }
    }

    pub(crate) async fn check(&self) -> Result<(), Error> {
        for node in self.primaries().await? {
            let answer = node.send(&redis::cmd("PING"), false).await?;
            answer.map_err(|error| failure::of_command(&error))?;
        }
        Ok(())
    }

    pub(crate) async fn suspect(&self) {
        let nodes = match self {
            Servers::One(node) => vec![Arc::clone(node)],
            Servers::Cluster(cluster) => cluster.known(),
        };
        for node in nodes {
            node.suspect().await;
        }
    }
}

/// Runs all calls concurrently. They are started in order, so they are sent in order if they use
/// the same connection.
pub(crate) async fn in_order<F: Future>(calls: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut calls: Vec<_> = calls.map(|call| (Box::pin(call), None)).collect();
    poll_fn(|cx| {
        for (call, output) in calls.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = call.as_mut().poll(cx) {
                *output = Some(ready);
            }
        }
        if calls.iter().all(|(_, output)| output.is_some()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    calls.into_iter().filter_map(|(_, output)| output).collect()
}

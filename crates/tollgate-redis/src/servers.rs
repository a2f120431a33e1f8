//! One server, a primary behind sentinels, or a cluster: where a call of the script goes.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, RedisResult, Value};
use tollgate::{Decision, Error};

use crate::cluster::Cluster;
use crate::command::Call;
use crate::failure;
use crate::key;
use crate::node::Node;
use crate::target::{Finder, Target};

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
    pub(crate) async fn run(&self, call: &Call) -> Result<Vec<Decision>, Error> {
        let Some(first) = call.parts.first() else { return Ok(Vec::new()) };
        let mut result = self.send(&first.key, |narrow| call.command(false, narrow)).await?;
        // A server that has just started, or has just become a primary, does not know the script. It was not executed.
        if result.as_ref().is_err_and(failure::is_no_script) {
            result = self.send(&first.key, |narrow| call.command(true, narrow)).await?;
        }
        let reply = result.map_err(|error| failure::of_command(&error))?;
        call.decisions(&reply)
    }

    /// Sends a command to who has the key.
    pub(crate) async fn send(
        &self,
        key: &[u8],
        command: impl Fn(bool) -> Cmd,
    ) -> Result<RedisResult<Value>, Error> {
        match self {
            Servers::One(node) => node.send(&command(false)).await,
            Servers::Cluster(cluster) => cluster.send(key::slot(key), command).await,
        }
    }

    /// All that hold keys.
    pub(crate) async fn primaries(&self) -> Result<Vec<Arc<Node>>, Error> {
        match self {
            Servers::One(node) => Ok(vec![Arc::clone(node)]),
            Servers::Cluster(cluster) => cluster.primaries().await,
        }
    }

    pub(crate) async fn check(&self) -> Result<(), Error> {
        for node in self.primaries().await? {
            node.connected().await?;
            let answer = node.send(&redis::cmd("PING")).await?;
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

//! A cluster client: it knows the node of each slot, and follows changes.
//!
//! Written by hand, because the cluster client of the `redis` crate sends a command again when a
//! connection breaks under it, and then a hit may count twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tollgate::Error;
use tollgate::key::SLOTS;

use crate::failure;
use crate::key;
use crate::node::Node;
use crate::servers::in_order;
use crate::target::{Finder, Server};

/// The most redirections that a command follows.
const REDIRECTIONS: usize = 5;

/// How often a command is sent again while its keys move, and the pause before each time.
const TRIES: usize = 5;
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// The least time between two reads of the slot map.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Cluster {
    seeds: Vec<Server>,
    connect_timeout: Duration,
    runtime: tokio::runtime::Handle,
    map: RwLock<Map>,
    refreshing: AtomicBool,
}

type Address = (String, u16);

#[derive(Debug, Default)]
struct Map {
    nodes: HashMap<Address, Arc<Node>>,
    /// The node of each slot; empty before the first read.
    slots: Vec<Option<Arc<Node>>>,
}

impl Cluster {
    pub(crate) fn new(
        seeds: Vec<Server>,
        connect_timeout: Duration,
        runtime: tokio::runtime::Handle,
    ) -> Arc<Cluster> {
        let map = RwLock::default();
        Arc::new(Cluster {
            seeds,
            connect_timeout,
            runtime,
            map,
            refreshing: AtomicBool::new(false),
        })
    }

    pub(crate) fn node_of(&self, slot: u16) -> Option<Arc<Node>> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.slots.get(usize::from(slot)).cloned().flatten()
    }

    /// The node at an address. Adds it if it is new.
    fn node_at(&self, host: &str, port: u16) -> Arc<Node> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        self.node_in(&mut map, host, port)
    }

    fn node_in(&self, map: &mut Map, host: &str, port: u16) -> Arc<Node> {
        let new = || {
            let server = self.seeds[0].at(host, port);
            Node::new(Finder::Fixed(server), self.connect_timeout, self.runtime.clone())
        };
        Arc::clone(map.nodes.entry((host.to_owned(), port)).or_insert_with(new))
    }

    /// All primaries.
    pub(crate) async fn primaries(self: &Arc<Self>) -> Result<Vec<Arc<Node>>, Error> {
        self.refresh().await?;
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let mut primaries: Vec<Arc<Node>> = Vec::new();
        for node in map.slots.iter().flatten() {
            if !primaries.iter().any(|known| Arc::ptr_eq(known, node)) {
                primaries.push(Arc::clone(node));
            }
        }
        Ok(primaries)
    }

    pub(crate) fn known(&self) -> Vec<Arc<Node>> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.nodes.values().cloned().collect()
    }

    /// Sends a command to the node that has the slot of its keys, also after the slot has moved.
    /// `command` makes it: with all its keys, or (if called with true) with only the first of them
    /// named to Redis. `together`: whether it is sent again while only some of its keys have moved.
    pub(crate) async fn send(
        self: &Arc<Self>,
        keys: &[&[u8]],
        together: bool,
        command: impl Fn(bool) -> Cmd,
    ) -> Result<RedisResult<Value>, Error> {
        let slot = keys.first().map_or(0, |key| key::slot(key));
        let mut node = match self.node_of(slot) {
            Some(node) => node,
            None => {
                self.refresh().await?;
                let uncovered = || Error::unavailable(format!("no node serves slot {slot}"));
                self.node_of(slot).ok_or_else(uncovered)?
            }
        };
        let mut cmd = command(false);
        // The node that redirected the command to another one.
        let mut giver: Option<Arc<Node>> = None;
        let (mut redirections, mut tries) = (0, 0);
        loop {
            let result = node.send(&cmd, giver.is_some()).await;
            let error = match result {
                Ok(Err(error)) => error,
                Ok(Ok(value)) => return Ok(Ok(value)),
                Err(not_sent) => {
                    self.refresh_soon();
                    return Err(not_sent);
                }
            };
            match error.kind() {
                ErrorKind::Server(kind @ (ServerErrorKind::Moved | ServerErrorKind::Ask))
                    if redirections < REDIRECTIONS =>
                {
                    redirections += 1;
                    let Some((host, port)) = error.redirect_node().and_then(|(a, _)| address(a))
                    else {
                        return Ok(Err(error));
                    };
                    let host = if host.is_empty() { self.seeds[0].host() } else { host };
                    let last = std::mem::replace(&mut node, self.node_at(host, port));
                    giver = (kind == ServerErrorKind::Ask).then_some(last);
                    cmd = command(false);
                    if giver.is_none() {
                        self.moved(slot, &node);
                        self.refresh_soon();
                    }
                }
                // Some keys of the slot have moved and some have not, or some do not exist: nothing
                // was executed.
                ErrorKind::Server(ServerErrorKind::TryAgain) if together && tries < TRIES => {
                    tries += 1;
                    match giver.take() {
                        // Keys that the old node does not have are created on the new node.
                        Some(last) if gave_all(&last, keys).await? => {
                            cmd = command(true);
                            giver = Some(last);
                        }
                        Some(last) => {
                            self.pause().await;
                            node = last;
                        }
                        None => self.pause().await,
                    }
                }
                _ => {
                    if failure::breaks(&error) || error.is_cluster_error() {
                        self.refresh_soon();
                    }
                    return Ok(Err(error));
                }
            }
        }
    }

    fn pause(&self) -> impl Future<Output = ()> + Send + use<> {
        let _on_it = self.runtime.enter();
        tokio::time::sleep(TRY_AGAIN)
    }

    fn moved(&self, slot: u16, node: &Arc<Node>) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = map.slots.get_mut(usize::from(slot)) {
            *place = Some(Arc::clone(node));
        }
    }

    /// Reads the slot map in the background, unless a task does already.
    fn refresh_soon(self: &Arc<Self>) {
        if self.refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let cluster = Arc::clone(self);
        self.runtime.spawn(async move {
            if let Err(error) = cluster.refresh().await {
                tracing::debug!(%error, "cannot read the slot map");
            }
            tokio::time::sleep(REFRESH_PAUSE).await;
            cluster.refreshing.store(false, Ordering::Release);
        });
    }

    /// Asks the nodes, known ones and seeds, until one returns the slot map.
    async fn refresh(self: &Arc<Self>) -> Result<(), Error> {
        let mut last = Error::unavailable("no node of the cluster to ask");
        let mut nodes = self.known();
        for seed in &self.seeds {
            nodes.push(Node::new(
                Finder::Fixed(seed.clone()),
                self.connect_timeout,
                self.runtime.clone(),
            ));
        }
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg("SLOTS");
        for node in nodes {
            match node.send_in_time(&cmd).await {
                Ok(Ok(reply)) => match ranges(&reply) {
                    Some(ranges) => {
                        self.learn(&ranges);
                        return Ok(());
                    }
                    None => last = Error::store(format!("not a map of slots: {reply:?}"), false),
                },
                Ok(Err(error)) => last = failure::of_command(&error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn learn(&self, ranges: &[Range]) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let mut slots = vec![None; usize::from(SLOTS)];
        for Range { first, last, host, port } in ranges {
            let host = if host.is_empty() { self.seeds[0].host() } else { host };
            let node = self.node_in(&mut map, host, *port);
            let last = usize::from(*last).min(slots.len() - 1);
            for place in &mut slots[usize::from(*first).min(last)..=last] {
                *place = Some(Arc::clone(&node));
            }
        }
        map.slots = slots;
        // Drops nodes that serve no slots any more, with their connections.
        let Map { nodes, slots } = &mut *map;
        nodes.retain(|_, node| slots.iter().flatten().any(|serving| Arc::ptr_eq(serving, node)));
    }
}

/// Whether the node from which a slot moves has none of these keys any more. It will not get new
/// ones, because it redirects all commands for them.
async fn gave_all(giver: &Arc<Node>, keys: &[&[u8]]) -> Result<bool, Error> {
    // One by one: asked about several keys, Redis before version 7 gives the same answer whether it
    // has some or none.
    let exists = |key: &&[u8]| {
        let mut cmd = redis::cmd("EXISTS");
        cmd.arg(*key);
        async move { giver.send(&cmd, false).await }
    };
    for reply in in_order(keys.iter().map(exists)).await {
        let gone = |e: &RedisError| e.kind() == ErrorKind::Server(ServerErrorKind::Ask);
        if !reply?.is_err_and(|error| gone(&error)) {
            return Ok(false);
        }
    }
    Ok(true)
}

struct Range {
    first: u16,
    last: u16,
    host: String,
    port: u16,
}

/// The primaries in a reply of `CLUSTER SLOTS`: first slot, last slot, then nodes, the primary
/// first.
fn ranges(reply: &Value) -> Option<Vec<Range>> {
    let Value::Array(entries) = reply else { return None };
    let range = |entry: &Value| {
        let Value::Array(entry) = entry else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &entry[..] else {
            return None;
        };
        let [host, Value::Int(port), ..] = &primary[..] else { return None };
        let host = match host {
            Value::BulkString(host) => String::from_utf8_lossy(host).into_owned(),
            _ => String::new(),
        };
        Some(Range {
            first: u16::try_from(*first).ok()?,
            last: u16::try_from(*last).ok()?,
            host: if host == "?" { String::new() } else { host },
            port: u16::try_from(*port).ok()?,
        })
    };
    entries.iter().map(range).collect()
}

fn address(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']), port.parse().ok()?))
}

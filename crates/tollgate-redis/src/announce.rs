//! Announcements of changed keys by pub/sub of Redis.
//!
//! A message is published after the call of the script on the same connection, not by the script:
//! so an ACL that forbids `PUBLISH` fails only the announcement, and the log can say so. In a
//! cluster one channel serves all slots, because a cluster forwards `PUBLISH` to all nodes. Sharded
//! pub/sub would save that, but would need Redis 7 and a subscription on each shard, for messages
//! that are few and short.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tollgate::Error;
use tollgate_remote::{Channel, Hearing};

use crate::failure;
use crate::servers::Servers;

/// A silent connection is pinged at this interval, and given up after this time without an answer.
const PING: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);

/// One channel of pub/sub, on a connection of its own for listening.
#[derive(Debug)]
pub(crate) struct PubSub {
    servers: Servers,
    channel: String,
}

impl PubSub {
    pub(crate) fn new(servers: Servers, channel: String) -> PubSub {
        PubSub { servers, channel }
    }

    /// Subscribes at the first server that accepts it.
    async fn subscribe(&self) -> Result<(PubSubSink, PubSubStream), Error> {
        let mut last = Error::unavailable("no server to subscribe to");
        for node in self.servers.carriers().await? {
            let subscribe = async {
                let (mut sink, stream) = node.open_pubsub().await?.split();
                let subscribed = sink.subscribe(&self.channel).await;
                subscribed.map_err(|error| failure::of_command(&error))?;
                Ok((sink, stream))
            };
            match node.in_time(subscribe).await {
                Ok(subscription) => return Ok(subscription),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Passes messages on until the connection breaks, and returns why.
    async fn hear(&self, hearing: &Hearing) -> Result<Infallible, Error> {
        let (mut sink, mut stream) = self.subscribe().await?;
        hearing.begin();
        let mut pings = interval(PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = stream.next() => match message {
                    Some(message) => hearing.message(message.get_payload_bytes()),
                    None => return Err(Error::unavailable("the subscription was closed")),
                },
                _ = pings.tick() => match timeout(PATIENCE, sink.ping::<()>()).await {
                    Ok(pong) => pong.map_err(|error| failure::of_command(&error))?,
                    Err(_) => {
                        let text = format!("the subscription was silent for {PATIENCE:?}");
                        return Err(Error::unavailable(text));
                    }
                },
            }
        }
    }
}

impl Channel for PubSub {
    async fn send(&self, message: String) -> Result<(), Error> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&self.channel).arg(message);
        let mut last = Error::unavailable("no server to publish at");
        for node in self.servers.carriers().await? {
            match node.send_in_time(&publish).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => last = failure::of_command(&error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn listen(&self, hearing: &Hearing) -> Error {
        match self.hear(hearing).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }
}

//! Redis or Valkey pub/sub as a bus.

use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSubSink, PubSubStream};
use redis::{Client, IntoConnectionInfo, RedisError, TlsCertificates};
use tokio::time::{interval, sleep, timeout};
use tollgate::Error;

use super::{Bus, Event, Far, Line, PREFIX};
use crate::replicated::{Actor, Outgoing};

/// The server is pinged at this interval.
const PING: Duration = Duration::from_secs(1);

/// A server that has not answered for this long is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest pause between attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The most messages that are sent together.
const BATCH: usize = 64;

/// Messages over pub/sub of Redis or Valkey. The URL names the server:
/// `redis://user:password@host:6379`, or `rediss://` for TLS. Nothing is stored there.
///
/// ```
/// # async fn example() -> Result<(), tollgate::Error> {
/// use tollgate_cluster::{bus::RedisPubSub, replicated::Replicated};
/// let bus = RedisPubSub::new("redis://127.0.0.1:6379")?;
/// let replica = Replicated::builder(bus).start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedisPubSub {
    info: redis::ConnectionInfo,
    prefix: String,
    roots: Option<Vec<u8>>,
}

impl RedisPubSub {
    /// A bus from its URL.
    ///
    /// # Errors
    /// When the URL is not valid.
    ///
    /// See the example of [`RedisPubSub`].
    pub fn new(url: &str) -> Result<RedisPubSub, Error> {
        let wrong =
            |error: RedisError| Error::request(format!("the url of a Redis server: {error}"));
        let info = url.into_connection_info().map_err(wrong)?;
        Ok(RedisPubSub { info, prefix: PREFIX.to_owned(), roots: None })
    }

    /// The prefix of all channels, by default `tollgate`. Replicas with one prefix are one fleet.
    ///
    /// ```
    /// # use tollgate_cluster::bus::RedisPubSub;
    /// let bus = RedisPubSub::new("redis://127.0.0.1")?.prefix("shop:limits");
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> RedisPubSub {
        self.prefix = prefix.into();
        self
    }

    /// Certificates to trust instead of the system's, in PEM form.
    ///
    /// ```
    /// # use tollgate_cluster::bus::RedisPubSub;
    /// let bus = RedisPubSub::new("rediss://redis.example.org")?.root_certificates("-----BEGIN ...");
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> RedisPubSub {
        self.roots = Some(pem.into());
        self
    }

    fn client(&self) -> Result<Client, RedisError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another part of the program may have installed one already, which works as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        match &self.roots {
            Some(roots) => Client::build_with_tls(
                self.info.clone(),
                TlsCertificates { client_tls: None, root_cert: Some(roots.clone()) },
            ),
            None => Client::open(self.info.clone()),
        }
    }

    fn channel(&self, to: Option<Actor>) -> String {
        match to {
            None => format!("{}:all", self.prefix),
            Some(actor) => format!("{}:to:{actor:016x}", self.prefix),
        }
    }

    async fn run(self, actor: Actor, mut far: Far) {
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => {
                return tracing::error!(%error, "the Redis bus of a replica cannot be used");
            }
        };
        let mut pause = Duration::from_millis(50);
        loop {
            match timeout(PATIENCE, self.connect(&client, actor)).await {
                Ok(Ok(connections)) => {
                    if far.events.send(Event::Connected).await.is_err() {
                        return;
                    }
                    let Some(why) = self.talk(connections, &mut far).await else { return };
                    tracing::warn!(why, "the Redis bus of a replica is lost");
                    pause = Duration::from_millis(50);
                    if far.events.send(Event::Disconnected).await.is_err() {
                        return;
                    }
                }
                Ok(Err(error)) => tracing::debug!(%error, "no connection to the Redis bus"),
                Err(_) => tracing::debug!("no answer of the Redis bus"),
            }
            if !throw_away(&mut far, pause).await {
                return;
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    async fn connect(
        &self,
        client: &Client,
        actor: Actor,
    ) -> Result<(MultiplexedConnection, PubSubSink, PubSubStream), RedisError> {
        let sender = client.get_multiplexed_async_connection().await?;
        let (mut sink, stream) = client.get_async_pubsub().await?.split();
        sink.subscribe(&[self.channel(None), self.channel(Some(actor))]).await?;
        Ok((sender, sink, stream))
    }

    /// Carries messages until the connection breaks, and returns the reason; `None` when the
    /// replica has left.
    async fn talk(
        &self,
        (mut sender, mut sink, mut stream): (MultiplexedConnection, PubSubSink, PubSubStream),
        far: &mut Far,
    ) -> Option<String> {
        let mut pings = interval(PING);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                message = stream.next() => {
                    let Some(message) = message else { return Some("closed".to_owned()) };
                    let event = Event::Message(message.get_payload_bytes().to_vec());
                    far.events.send(event).await.ok()?;
                }
                count = far.outgoing.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return None;
                    }
                    if let Err(why) = self.publish(&mut sender, &mut batch).await {
                        return Some(why);
                    }
                }
                _ = pings.tick() => match timeout(PATIENCE, sink.ping::<()>()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return Some(error.to_string()),
                    Err(_) => return Some(format!("no answer within {PATIENCE:?}")),
                },
            }
        }
    }

    async fn publish(
        &self,
        sender: &mut MultiplexedConnection,
        batch: &mut Vec<Outgoing>,
    ) -> Result<(), String> {
        let mut pipeline = redis::pipe();
        for Outgoing { to, bytes } in batch.drain(..) {
            pipeline.cmd("PUBLISH").arg(self.channel(to)).arg(bytes).ignore();
        }
        match timeout(PATIENCE, pipeline.query_async::<()>(sender)).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {PATIENCE:?}")),
        }
    }
}

/// Drops outgoing messages while there is no connection; false when the replica has left.
async fn throw_away(far: &mut Far, pause: Duration) -> bool {
    let over = sleep(pause);
    tokio::pin!(over);
    loop {
        tokio::select! {
            () = &mut over => return true,
            outgoing = far.outgoing.recv() => if outgoing.is_none() { return false },
        }
    }
}

impl Bus for RedisPubSub {
    fn join(self, actor: Actor) -> Line {
        let (line, far) = Line::new();
        tokio::spawn(self.run(actor, far));
        line
    }
}

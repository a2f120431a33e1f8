//! NATS as a bus: core subjects, no streams.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, ServerAddr, Subscriber};
use futures_util::StreamExt;
use tokio::sync::mpsc::{self, Sender};
use tollgate::Error;

use super::{Bus, Event, Far, Line, PREFIX};
use crate::replicated::{Actor, Outgoing};

/// The client pings at this interval. A server that is silent for two of them is given up.
const PING: Duration = Duration::from_secs(1);

/// How long the next attempt to connect waits.
fn pause(attempts: usize) -> Duration {
    Duration::from_millis(50 << attempts.min(5))
}

/// Messages over NATS. The URL contains user and password (`nats://user:password@host:4222`),
/// `tls://` asks for TLS, and several servers of a cluster are separated by commas.
///
/// ```
/// # async fn example() -> Result<(), tollgate::Error> {
/// use tollgate_cluster::{bus::Nats, replicated::Replicated};
/// let replica = Replicated::builder(Nats::new("nats://127.0.0.1:4222")?).start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Nats {
    servers: Vec<ServerAddr>,
    prefix: String,
    roots: Option<std::path::PathBuf>,
}

impl Nats {
    /// A bus from its URL.
    ///
    /// # Errors
    /// When the URL is not valid.
    ///
    /// See the example of [`Nats`].
    pub fn new(url: &str) -> Result<Nats, Error> {
        let server = |url: &str| {
            url.parse().map_err(|error| {
                // The URL may contain a password, so the error does not show it.
                Error::request(format!("the url of a NATS server: {error}"))
            })
        };
        let servers = url.split(',').map(server).collect::<Result<_, _>>()?;
        Ok(Nats { servers, prefix: PREFIX.to_owned(), roots: None })
    }

    /// The prefix of all subjects, by default `tollgate`. Replicas with one prefix are one fleet.
    ///
    /// ```
    /// # use tollgate_cluster::bus::Nats;
    /// let bus = Nats::new("nats://127.0.0.1:4222")?.prefix("shop.limits");
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Nats {
        self.prefix = prefix.into();
        self
    }

    /// A file of certificates to trust besides the system's.
    ///
    /// ```
    /// # use tollgate_cluster::bus::Nats;
    /// let bus = Nats::new("tls://nats.example.org")?.root_certificates("/etc/nats/ca.pem");
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<std::path::PathBuf>) -> Nats {
        self.roots = Some(pem.into());
        self
    }

    /// Connects in the background, for as long as it takes, and reports the state to `states`.
    async fn connect(&self, states: Sender<Event>) -> Result<Client, String> {
        let mut options = ConnectOptions::new()
            .retry_on_initial_connect()
            .ping_interval(PING)
            .reconnect_delay_callback(pause)
            .event_callback(move |event| {
                let states = states.clone();
                async move {
                    let event = match event {
                        // The client dropped messages, so replicas must compare their counts.
                        async_nats::Event::Connected | async_nats::Event::SlowConsumer(_) => {
                            Event::Connected
                        }
                        async_nats::Event::Disconnected => Event::Disconnected,
                        other => {
                            tracing::debug!(event = %other, "NATS");
                            return;
                        }
                    };
                    let _ = states.send(event).await;
                }
            });
        if let Some(roots) = &self.roots {
            options = options.add_root_certificates(roots.clone());
        }
        let first = self.servers.iter().find(|server| server.has_user_pass());
        if let Some((user, password)) =
            first.and_then(|server| server.username().zip(server.password()))
        {
            options = options.user_and_password(user.to_owned(), password.to_owned());
        }
        options.connect(&self.servers[..]).await.map_err(|error| error.to_string())
    }

    async fn run(self, actor: Actor, mut far: Far) {
        let (states, mut changes) = mpsc::channel(16);
        let all = format!("{}.all", self.prefix);
        let one = |actor: Actor| format!("{}.to.{actor:016x}", self.prefix);
        let joined = async {
            let client = self.connect(states).await?;
            let subscribe = async |subject: String| {
                client.subscribe(subject).await.map_err(|error| error.to_string())
            };
            let (to_all, to_me) = (subscribe(all.clone()).await?, subscribe(one(actor)).await?);
            Ok::<_, String>((client, to_all, to_me))
        };
        let (client, mut to_all, mut to_me) = match joined.await {
            Ok(joined) => joined,
            Err(error) => {
                return tracing::error!(error, "the NATS bus of a replica cannot be used");
            }
        };
        let mut connected = false;
        loop {
            let event = tokio::select! {
                Some(change) = changes.recv() => {
                    connected = change == Event::Connected;
                    change
                }
                event = message(&mut to_all) => event,
                event = message(&mut to_me) => event,
                outgoing = far.outgoing.recv() => match outgoing {
                    // A client without a connection would queue the messages and send them all
                    // late.
                    Some(Outgoing { to, bytes }) if connected => {
                        let subject = to.map_or_else(|| all.clone(), one);
                        let _ = client.publish(subject, bytes.into()).await;
                        continue;
                    }
                    Some(_) => continue,
                    None => {
                        // The last message was that this replica leaves.
                        let _ = tokio::time::timeout(PING, client.flush()).await;
                        return;
                    }
                },
            };
            if far.events.send(event).await.is_err() {
                return;
            }
        }
    }
}

async fn message(subscriber: &mut Subscriber) -> Event {
    match subscriber.next().await {
        Some(message) => Event::Message(message.payload.to_vec()),
        // The client is gone, and with it everybody who could wait here.
        None => std::future::pending().await,
    }
}

impl Bus for Nats {
    fn join(self, actor: Actor) -> Line {
        let (line, far) = Line::new();
        tokio::spawn(self.run(actor, far));
        line
    }
}

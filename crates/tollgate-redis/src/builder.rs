//! Settings of a Redis store.

use std::sync::Arc;
use std::time::Duration;

use tollgate::shared::{Guard, GuardBuilder, without_secrets};
use tollgate::{Clock, Error, SystemClock};
use tollgate_remote::{Announcements, Queues, Tokio};

use crate::announce::PubSub;
use crate::key::Keyspace;
use crate::servers::Servers;
use crate::target::{Certificates, Target};
use crate::{CLUSTER_LANES, Inner, Redis};

/// The settings of a [`Redis`].
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::shared::Guard;
/// use tollgate_redis::Redis;
///
/// # async fn example() -> Result<(), tollgate::Error> {
/// let store = Redis::builder("rediss://user:secret@redis.example.org:6380/2")
///     .prefix("shop")
///     .guard(Guard::builder().deadline(Duration::from_millis(10)))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it connects"]
pub struct RedisBuilder {
    url: String,
    prefix: String,
    connect_timeout: Duration,
    certificates: Certificates,
    guard: GuardBuilder,
    clock: Arc<dyn Clock>,
}

/// Leaves out the address, which may contain a password.
impl std::fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl RedisBuilder {
    pub(crate) fn new(url: String) -> RedisBuilder {
        RedisBuilder {
            url,
            prefix: "tollgate".into(),
            connect_timeout: Duration::from_secs(2),
            certificates: Certificates::default(),
            guard: Guard::builder(),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// The prefix of all keys. Default `tollgate`. Printable ASCII without blanks and braces.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long one attempt to connect may take. Default 2 seconds. It continues in the background:
    /// no call waits longer than its deadline.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Certificates of authorities to trust, PEM, instead of those of the system.
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.roots = Some(pem.into());
        self
    }

    /// A client certificate and its key, PEM.
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.client = Some((certificate.into(), key.into()));
        self
    }

    /// Deadline, breaker and remembered denials.
    pub fn guard(mut self, guard: GuardBuilder) -> Self {
        self.guard = guard;
        self
    }

    /// The clock of this machine. It says which calendar windows are sent to the server, which
    /// decides by its own time.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Connects and returns the store.
    ///
    /// # Errors
    /// When the address or the prefix is not valid, or the server cannot be reached.
    pub async fn connect(self) -> Result<Redis, Error> {
        let connect_timeout = self.connect_timeout;
        let store = self.connect_later()?;
        let check = tokio::time::timeout(connect_timeout, store.reachable()).await;
        check.unwrap_or_else(|_| {
            Err(Error::unavailable(format!("no answer within {connect_timeout:?}")))
        })?;
        Ok(store)
    }

    /// Returns the store immediately; it connects with the first call. For services that must start
    /// without Redis. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// When the address or the prefix is not valid, or there is no runtime.
    pub fn connect_later(self) -> Result<Redis, Error> {
        let keyspace = Keyspace::new(&self.prefix)?;
        let target = Target::parse(&self.url, &self.certificates)?;
        let runtime = Tokio::current("Redis")?;
        let servers = Servers::new(target, self.connect_timeout, &runtime);
        let lanes = if servers.is_cluster() { CLUSTER_LANES } else { 1 };
        let (suspected, spawner) = (servers.clone(), runtime.clone());
        let suspect = move || {
            let servers = suspected.clone();
            spawner.spawn(async move { servers.suspect().await });
        };
        let guard = self.guard.lanes(lanes).name(without_secrets(&self.url)).on_open(suspect);
        let queues = Queues::new((*runtime).clone());
        let guard = Arc::new(guard.build_on(runtime.clone()));
        let channel = PubSub::new(servers.clone(), keyspace.channel());
        let announcements = Announcements::new(channel, Arc::clone(&guard), runtime.clone());
        let clock = self.clock;
        let inner = Inner { keyspace, servers, guard, announcements, queues, runtime, clock };
        Ok(Redis { inner: Arc::new(inner) })
    }
}

//! Settings of a Memcached store.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, Error, SystemClock};
use tollgate_cas::{Cas, MAX_SKEW, REMEMBER};
use tollgate_remote::{Settings, Tokio, reach};

use crate::Memcached;
use crate::name::Names;
use crate::server::{Server, Way};
use crate::servers::Servers;
use crate::target::{Lanes, Target};

/// The settings of a [`Memcached`].
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::shared::Guard;
/// use tollgate_memcached::Memcached;
///
/// # async fn example() -> Result<(), tollgate::Error> {
/// let store = Memcached::builder("memcached://10.0.0.1:11211,10.0.0.2:11211")
///     .prefix("shop")
///     .max_skew(Duration::from_secs(2))
///     .guard(Guard::builder().deadline(Duration::from_millis(10)))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it connects"]
pub struct MemcachedBuilder {
    settings: Settings,
    prefix: String,
    max_skew: Duration,
    remember: usize,
    clock: Arc<dyn Clock>,
}

/// Leaves out the address, which may contain a password.
impl std::fmt::Debug for MemcachedBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemcachedBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl MemcachedBuilder {
    pub(crate) fn new(url: String) -> MemcachedBuilder {
        MemcachedBuilder {
            settings: Settings::new(url),
            prefix: "tollgate".into(),
            max_skew: MAX_SKEW,
            remember: REMEMBER,
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// The prefix of all keys. Default `tollgate`. Up to 32 bytes of printable ASCII without
    /// blanks.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    tollgate_remote::settings_methods!();

    /// How far the clocks of your machines may be apart. Default 10 seconds. Within this, the clock
    /// that is furthest ahead is followed. A state that was written further ahead is an error, not
    /// a decision.
    pub fn max_skew(mut self, max_skew: Duration) -> Self {
        self.max_skew = max_skew;
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How many states are cached, so that a hit on them is one round trip. Default 100,000, some
    /// 200 bytes each.
    pub fn remember(mut self, states: usize) -> Self {
        self.remember = states;
        self
    }

    /// Connects and returns the store.
    ///
    /// # Errors
    /// When the address or the prefix is not valid, or a server cannot be reached.
    pub async fn connect(self) -> Result<Memcached, Error> {
        let connect_timeout = self.settings.connect_timeout;
        let store = self.connect_later()?;
        reach(connect_timeout, store.reachable()).await?;
        Ok(store)
    }

    /// Returns the store immediately; it connects in the background. For services that must start
    /// without Memcached. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// When the address or the prefix is not valid, or there is no runtime.
    pub fn connect_later(self) -> Result<Memcached, Error> {
        let names = Names::new(&self.prefix)?;
        let Target { addresses, login } = Target::parse(&self.settings.url)?;
        let runtime = Tokio::current("Memcached")?;
        let lanes = Lanes::new(&addresses);
        let server = |address| {
            let way = Way {
                address,
                login: login.clone(),
                connect_timeout: self.settings.connect_timeout,
            };
            Server::new(way, &runtime)
        };
        let servers: Box<[Server]> = addresses.into_iter().map(server).collect();
        let guard = self.settings.named_guard().lanes(servers.len());
        let cells = Servers { names, lanes, servers, clock: SystemClock::new() };
        let cas = Cas::builder(cells).guard(guard).clock(self.clock);
        let cas = cas.max_skew(self.max_skew).remember(self.remember);
        Ok(Memcached(cas.build()?))
    }
}

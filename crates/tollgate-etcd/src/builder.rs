//! Settings of an etcd store.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, Error, SystemClock};
use tollgate_cas::Cas;
use tollgate_remote::{Settings, Tokio};

use crate::Etcd;
use crate::cells::EtcdCells;
use crate::members::Members;
use crate::target::Target;

/// The settings of an [`Etcd`].
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::shared::Guard;
/// use tollgate_etcd::Etcd;
///
/// # async fn example() -> Result<(), tollgate::Error> {
/// let store = Etcd::builder("etcds://user:secret@a.example.org,b.example.org,c.example.org")
///     .prefix("shop")
///     .guard(Guard::builder().deadline(Duration::from_millis(50)))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it connects"]
pub struct EtcdBuilder {
    settings: Settings,
    prefix: String,
    max_skew: Duration,
    clock: Arc<dyn Clock>,
}

/// Leaves out the address, which may contain a password.
impl std::fmt::Debug for EtcdBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl EtcdBuilder {
    pub(crate) fn new(url: String) -> EtcdBuilder {
        EtcdBuilder {
            settings: Settings::new(url),
            prefix: "tollgate".into(),
            max_skew: tollgate_cas::MAX_SKEW,
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// The prefix of all keys, followed by a slash. Default `tollgate`. The user needs permission
    /// to read and write keys with this prefix.
    ///
    /// See the example of [`EtcdBuilder`].
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    tollgate_remote::settings_methods!(certificates);

    /// How far the clocks of two machines may be apart. Default 10 seconds. Within this, the clock
    /// that is furthest ahead is followed. A state that was written further ahead is an error, not
    /// a decision.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let builder = tollgate_etcd::Etcd::builder("etcd://a").max_skew(Duration::from_secs(1));
    /// ```
    pub fn max_skew(mut self, max_skew: Duration) -> Self {
        self.max_skew = max_skew;
        self
    }

    /// Another clock, for tests.
    ///
    /// ```
    /// let clock = tollgate::ManualClock::new(tollgate::Timestamp::EPOCH);
    /// let builder = tollgate_etcd::Etcd::builder("etcd://a").clock(clock);
    /// ```
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Connects and returns the store.
    ///
    /// # Errors
    /// When the address is not valid, or no member can be reached.
    ///
    /// See the example of [`EtcdBuilder`].
    pub async fn connect(self) -> Result<Etcd, Error> {
        let store = self.connect_later()?;
        store.reachable().await?;
        Ok(store)
    }

    /// Returns the store immediately; it connects with the first call. For services that must start
    /// without etcd. Call it inside a tokio runtime.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::Error> {
    /// let store = tollgate_etcd::Etcd::builder("etcd://127.0.0.1").connect_later()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the address is not valid, or there is no runtime.
    pub fn connect_later(self) -> Result<Etcd, Error> {
        let Settings { url, connect_timeout, certificates, .. } = &self.settings;
        let target = Target::parse(url, certificates, *connect_timeout)?;
        let runtime = Tokio::current("etcd")?;
        let prefix = format!("{}/", self.prefix).into_bytes();
        let members = Members::new(target, prefix.clone(), *connect_timeout, runtime);
        let cells = EtcdCells::new(members, prefix);
        let cas = Cas::builder(cells).guard(self.settings.named_guard()).clock(self.clock);
        Ok(Etcd(cas.max_skew(self.max_skew).build()?))
    }
}

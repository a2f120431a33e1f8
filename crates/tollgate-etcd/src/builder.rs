//! Settings of an etcd store.

use std::sync::Arc;
use std::time::Duration;

use tollgate::shared::{Guard, GuardBuilder, without_secrets};
use tollgate::{Clock, Error, SystemClock};
use tollgate_cas::Cas;

use crate::Etcd;
use crate::cells::EtcdCells;
use crate::members::Members;
use crate::target::{Certificates, Target};

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
    url: String,
    prefix: String,
    connect_timeout: Duration,
    certificates: Certificates,
    guard: GuardBuilder,
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
            url,
            prefix: "tollgate".into(),
            connect_timeout: Duration::from_secs(2),
            certificates: Certificates::default(),
            guard: Guard::builder(),
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

    /// How long an attempt to connect may take, with all members together, and the longest time of
    /// any request. Default 2 seconds. Connecting continues in the background: no call waits longer
    /// than its deadline.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let builder = tollgate_etcd::Etcd::builder("etcd://a").connect_timeout(Duration::from_secs(5));
    /// ```
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Certificates of authorities to trust, PEM, instead of those of the system.
    ///
    /// ```no_run
    /// # fn example() -> std::io::Result<()> {
    /// let builder = tollgate_etcd::Etcd::builder("etcds://a").root_certificates(std::fs::read("ca.crt")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.roots = Some(pem.into());
        self
    }

    /// A client certificate and its key, PEM.
    ///
    /// ```no_run
    /// # fn example() -> std::io::Result<()> {
    /// let (certificate, key) = (std::fs::read("client.crt")?, std::fs::read("client.key")?);
    /// let builder = tollgate_etcd::Etcd::builder("etcds://a").client_certificate(certificate, key);
    /// # Ok(())
    /// # }
    /// ```
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.client = Some((certificate.into(), key.into()));
        self
    }

    /// Deadline, breaker and remembered denials.
    ///
    /// See the example of [`EtcdBuilder`].
    pub fn guard(mut self, guard: GuardBuilder) -> Self {
        self.guard = guard;
        self
    }

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
        let target = Target::parse(&self.url, &self.certificates, self.connect_timeout)?;
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|error| Error::request(format!("etcd needs a tokio runtime: {error}")))?;
        let prefix = format!("{}/", self.prefix).into_bytes();
        let members = Members::new(target, prefix.clone(), self.connect_timeout, runtime);
        let cells = EtcdCells::new(members, prefix);
        let guard = self.guard.name(without_secrets(&self.url));
        let cas = Cas::builder(cells).guard(guard).clock(self.clock);
        Ok(Etcd(cas.max_skew(self.max_skew).build()?))
    }
}

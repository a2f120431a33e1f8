//! Opens the store that a URL names.

use std::sync::Arc;
use std::time::Duration;

use tollgate::shared::{AnyStore, GuardBuilder, InProcess, Runtime};
use tollgate::{Error, Store};

use crate::scheme::{known, scheme_of};
use crate::settings::cut;

/// Opens the store that a URL names, with the defaults of that store.
///
/// # Errors
/// When the URL is not valid, names a store that was not compiled in, or the server does not
/// answer.
///
/// See the example of this crate.
pub async fn open(url: &str) -> Result<AnyStore, Error> {
    Opening::new(url).open().await
}

/// Builder of a store: the URL and the settings that are not in it.
///
/// ```
/// # async fn example() -> Result<(), tollgate::Error> {
/// use std::time::Duration;
/// let store = tollgate_stores::Opening::new("redis://127.0.0.1/")
///     .deadline(Duration::from_millis(20))
///     .remember_denials(10_000)
///     .open()
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// A URL that begins with `leased+` draws allotments from the store behind it. It may set
/// `lease.nodes=3`, `lease.longest=250ms`, `lease.skew=5ms` and `lease.max_keys=10000`, as in
/// `leased+redis://127.0.0.1/?lease.nodes=3&lease.longest=250ms`.
///
/// A URL that begins with `replicated+` keeps counters that nodes exchange over a bus, NATS or
/// Redis. It may set `replica.nodes=3`, `replica.flush=20ms`, `replica.missing=share`,
/// `replica.peak=5000` and `replica.max_keys=10000`, as in
/// `replicated+nats://127.0.0.1:4222?replica.nodes=3&replica.missing=share`. For the detection of
/// missing nodes: `replica.heartbeat=1s`, `replica.memory=15m` and `replica.name=rack1-a`.
///
/// The URL of a store that can fail may set `guard.charge_local=false`: see
/// [`charge_local`](Opening::charge_local).
#[derive(Clone, Debug)]
pub struct Opening {
    pub(crate) url: String,
    deadline: Option<Duration>,
    open_after: Option<u32>,
    pauses: Option<(Duration, Duration)>,
    denials: Option<usize>,
    denials_for: Option<Duration>,
    charge_local: Option<bool>,
    pub(crate) max_keys: Option<usize>,
    pub(crate) max_limits: Option<usize>,
    pub(crate) prefix: Option<String>,
    node: Option<String>,
    pub(crate) lazily: bool,
    runtime: Option<Arc<dyn Runtime>>,
}

impl Opening {
    /// Begins with a URL.
    pub fn new(url: impl Into<String>) -> Opening {
        Opening {
            url: url.into(),
            deadline: None,
            open_after: None,
            pauses: None,
            denials: None,
            denials_for: None,
            charge_local: None,
            max_keys: None,
            max_limits: None,
            prefix: None,
            node: None,
            lazily: false,
            runtime: None,
        }
    }

    /// How long a call may take: see [`GuardBuilder::deadline`].
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How many failures in a row open a breaker: see [`GuardBuilder::open_after`].
    #[must_use]
    pub fn open_after(mut self, failures: u32) -> Self {
        self.open_after = Some(failures);
        self
    }

    /// How long a breaker stays open, at first and at most: see [`GuardBuilder::pause`].
    #[must_use]
    pub fn pause(mut self, first: Duration, longest: Duration) -> Self {
        self.pauses = Some((first, longest));
        self
    }

    /// How many denials are remembered: see [`GuardBuilder::remember_denials`].
    #[must_use]
    pub fn remember_denials(mut self, denials: usize) -> Self {
        self.denials = Some(denials);
        self
    }

    /// How long a denial is remembered at most: see [`GuardBuilder::denials_for`].
    #[must_use]
    pub fn denials_for(mut self, longest: Duration) -> Self {
        self.denials_for = Some(longest);
        self
    }

    /// Whether the store is charged for what was admitted without it: see
    /// [`GuardBuilder::charge_local`]. `guard.charge_local` in the URL has priority.
    #[must_use]
    pub fn charge_local(mut self, charge: bool) -> Self {
        self.charge_local = Some(charge);
        self
    }

    /// The most keys of an in-process store.
    #[must_use]
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = Some(keys);
        self
    }

    /// The most limits of an in-process store: see
    /// [`MemoryBuilder::max_limits`](tollgate::memory::MemoryBuilder::max_limits).
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use tollgate::shared::SharedLimiter;
    /// use tollgate_stores::Opening;
    ///
    /// let store = Opening::new("memory:").max_limits(1).open().await?;
    /// let login = SharedLimiter::new(&store, "", "5/minute")?;
    /// assert!(SharedLimiter::new(&store, "", "10/second").is_err());
    /// # drop(login);
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn max_limits(mut self, limits: usize) -> Self {
        self.max_limits = Some(limits);
        self
    }

    /// The prefix of all keys, for a store that other programs use too.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// The name of this node in a fleet of replicas, unless the URL has a `replica.name`: the same
    /// after each restart, and different on each node.
    #[must_use]
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// Returns a store before its server has answered: for programs that start before their store.
    #[must_use]
    pub fn lazily(mut self) -> Self {
        self.lazily = true;
        self
    }

    /// The runtime with which limiters on an in-process store
    /// [`wait`](tollgate::shared::SharedLimiter::wait). Other stores use the tokio runtime on which
    /// they are opened.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::{sync::Arc, time::Duration};
    /// use tollgate::shared::{Runtime, SharedLimiter, Task};
    ///
    /// #[derive(Debug)]
    /// struct Tokio;
    ///
    /// impl Runtime for Tokio {
    ///     fn sleep(&self, span: Duration) -> Task {
    ///         Box::pin(tokio::time::sleep(span))
    ///     }
    ///
    ///     fn spawn(&self, task: Task) {
    ///         tokio::spawn(task);
    ///     }
    /// }
    ///
    /// let store = tollgate_stores::Opening::new("memory:").runtime(Arc::new(Tokio)).open().await?;
    /// let limiter = SharedLimiter::new(&store, "", "20/second burst=1")?;
    /// for _ in 0..2 {
    ///     assert!(limiter.wait("alice", 1, Duration::from_secs(1)).await?.allowed());
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Opens the store.
    ///
    /// # Errors
    /// Opens the store, like [`open`].
    pub async fn open(self) -> Result<AnyStore, Error> {
        let url = self.url.clone();
        match url.split_once('+') {
            #[cfg(feature = "cluster")]
            Some(("leased", url)) => crate::cluster::lease(self, url).await,
            #[cfg(feature = "cluster")]
            Some(("replicated", url)) => crate::cluster::replicate(&self, url).await,
            #[cfg(not(feature = "cluster"))]
            Some((mode @ ("leased" | "replicated"), _)) => Err(Error::request(format!(
                "store \"{mode}+\": not compiled in; it needs the feature \"cluster\" of tollgate-stores"
            ))),
            _ => self.open_one().await,
        }
    }

    /// The name of this node, if it was given.
    #[cfg(feature = "cluster")]
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// The same settings with another URL.
    #[cfg(feature = "cluster")]
    pub(crate) fn at(self, url: String) -> Opening {
        Opening { url, ..self }
    }

    pub(crate) async fn open_one(self) -> Result<AnyStore, Error> {
        let scheme = scheme_of(&self.url).to_owned();
        let Some(kind) = known().iter().find(|known| known.schemes.contains(&&scheme[..])) else {
            let examples: Vec<_> = known().iter().map(|known| known.example).collect();
            return Err(Error::request(format!(
                "store {scheme:?}: unknown; known are {}",
                examples.join(", ")
            )));
        };
        match kind.open {
            Some(open) => open(self).await,
            None => {
                let feature = kind.feature.unwrap_or_default();
                Err(Error::request(format!(
                    "store {scheme:?}: not compiled in; it needs the feature {feature:?} of tollgate-stores"
                )))
            }
        }
    }

    /// Takes the settings of the guard out of the URL.
    pub(crate) fn with_guard_settings(mut self) -> Result<Opening, Error> {
        let (url, settings) = cut(&self.url, "guard.");
        for setting in settings {
            self.charge_local = match setting.name {
                "guard.charge_local" => Some(setting.one_of(&[("true", true), ("false", false)])?),
                _ => return Err(setting.unknown("guard.charge_local")),
            };
        }
        self.url = url;
        Ok(self)
    }

    /// The guard of a store that can fail.
    pub(crate) fn guard(&self, mut guard: GuardBuilder) -> GuardBuilder {
        if let Some(deadline) = self.deadline {
            guard = guard.deadline(deadline);
        }
        if let Some(failures) = self.open_after {
            guard = guard.open_after(failures);
        }
        if let Some((first, longest)) = self.pauses {
            guard = guard.pause(first, longest);
        }
        if let Some(denials) = self.denials {
            guard = guard.remember_denials(denials);
        }
        if let Some(longest) = self.denials_for {
            guard = guard.denials_for(longest);
        }
        if let Some(charge) = self.charge_local {
            guard = guard.charge_local(charge);
        }
        guard
    }

    /// A store in this process as a shared store.
    pub(crate) fn in_process<S: Store + std::fmt::Debug>(&self, store: S) -> AnyStore {
        match &self.runtime {
            Some(runtime) => AnyStore::new(InProcess::with_runtime(store, Arc::clone(runtime))),
            None => AnyStore::new(InProcess::new(store)),
        }
    }

    pub(crate) fn takes_no_address(&self) -> Result<(), Error> {
        let rest = self.url.split_once(':').map_or("", |(_, rest)| rest);
        if rest.trim_matches('/').is_empty() {
            return Ok(());
        }
        Err(Error::request(format!("store {:?}: nothing may follow the colon", self.url)))
    }
}

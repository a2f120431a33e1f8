//! The client's side: a client that waits its turn and obeys the waits that servers ask for.
//!
//! Before a request, the client waits until the wait of the server is over and its own limit has a
//! unit, and checks once more for a new wait. After the response it remembers the wait that it asks
//! for. Nothing is sent twice: to retry, put a retry layer around this one, and every attempt waits
//! its turn.

mod error;
mod holds;
mod message;

pub use error::PaceError;
pub use message::{Answered, Outgoing};

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tollgate::{Clock, Limiter, Memory, SystemClock};
use tollgate_http::{Decider, Head, RequestKey, asked_wait};
use tower_layer::Layer;
use tower_service::Service;

use holds::Holds;

/// The default of the longest wait.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The longest wait of a server that is remembered, so that one wrong header does not silence a
/// client for good.
const LONGEST_HOLD: Duration = Duration::from_secs(24 * 60 * 60);

type KeyFn = dyn Fn(&Head<'_>, &str) -> Vec<u8> + Send + Sync;

/// Makes a client stay under a limit and obey `Retry-After` and `RateLimit` of its responses. Each
/// host has a counter of its own, unless another key is set.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Memory;
/// use tollgate_tower::PaceLayer;
///
/// let limiter = Memory::new().limiter("10/second")?;
/// let layer = PaceLayer::new(limiter).max_wait(Duration::from_secs(5));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub struct PaceLayer<D: Decider> {
    limiter: Option<D>,
    key: Option<Arc<KeyFn>>,
    max_wait: Duration,
    clock: Arc<dyn Clock>,
    holds: Arc<Holds>,
}

impl<D: Decider> PaceLayer<D> {
    /// Stays under this limit, and obeys servers.
    ///
    /// See the example of [`PaceLayer`].
    #[must_use]
    pub fn new(limiter: D) -> PaceLayer<D> {
        PaceLayer {
            limiter: Some(limiter),
            key: None,
            max_wait: MAX_WAIT,
            clock: Arc::new(SystemClock::new()),
            holds: Arc::default(),
        }
    }

    /// The key of the limit, from the head of a request and its host with port. Default: host and
    /// port.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// use tollgate_tower::PaceLayer;
    /// let by_account = PaceLayer::new(Memory::new().limiter("10/second")?)
    ///     .key(|head, host| [host.as_bytes(), b" ", head.line("x-account").unwrap_or(b"")].concat());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn key(mut self, key: impl Fn(&Head<'_>, &str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        self.key = Some(Arc::new(key));
        self
    }

    /// The longest wait of a request. If it would take longer it fails immediately. Default 30
    /// seconds.
    ///
    /// See the example of [`PaceLayer`].
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// Another clock, for tests. It should run as fast as the timer of the runtime.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Memory};
    /// # use tollgate_tower::PaceLayer;
    /// let layer = PaceLayer::new(Memory::new().limiter("10/second")?).clock(ManualClock::default());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Waits for the turn of a request.
    async fn turn(&self, key: &RequestKey) -> Result<(), NoTurn> {
        let mut left = self.max_wait;
        self.obey(key, &mut left).await?;
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let start = self.clock.now();
        let outcomes = limiter.wait(key, 1, left, tokio::time::sleep).await;
        let outcomes = outcomes.map_err(NoTurn::Store)?;
        if !outcomes.allowed() {
            return Err(NoTurn::TooLong(outcomes.headline().retry_after()));
        }
        left = left.saturating_sub(self.clock.now().since(start));
        // While this request waited, the response to another one may have asked for more.
        let obeyed = self.obey(key, &mut left).await;
        if obeyed.is_err() {
            // The request is not sent, so it should cost nothing. If the refund fails, it has cost
            // one unit.
            let _ = limiter.refund(key, &outcomes, 1).await;
        }
        obeyed
    }

    /// Waits until no server asks for a wait.
    async fn obey(&self, key: &RequestKey, left: &mut Duration) -> Result<(), NoTurn> {
        while let Some(wait) = self.holds.wait(key, self.clock.now()) {
            *left = left.checked_sub(wait).ok_or(NoTurn::TooLong(Some(wait)))?;
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Remembers the wait that a response asks for.
    fn learn(&self, key: &RequestKey, answer: &impl Answered) {
        let now = self.clock.now();
        if let Some(wait) = asked_wait(answer.status_code(), answer.header_map(), now) {
            tracing::debug!(seconds = wait.as_secs(), "a server asks to wait");
            self.holds.hold(key, wait.min(LONGEST_HOLD), now);
        }
    }

    fn key_of(&self, request: &impl Outgoing) -> RequestKey {
        let host = request.host();
        let key = match &self.key {
            Some(find) => {
                let head = Head::new(request.method_name(), request.path(), request.header_map());
                find(&head, &host)
            }
            None => host.into_bytes(),
        };
        RequestKey::Bytes(key.into())
    }
}

impl PaceLayer<Limiter<Memory>> {
    /// Creates a layer that waits only as servers request, and has no limit of its own.
    ///
    /// ```
    /// let layer = tollgate_tower::PaceLayer::obeying();
    /// ```
    #[must_use]
    pub fn obeying() -> Self {
        PaceLayer {
            limiter: None,
            key: None,
            max_wait: MAX_WAIT,
            clock: Arc::new(SystemClock::new()),
            holds: Arc::default(),
        }
    }
}

/// Why a request is not sent.
enum NoTurn {
    TooLong(Option<Duration>),
    Store(tollgate::Error),
}

impl<D: Decider> Clone for PaceLayer<D> {
    fn clone(&self) -> Self {
        PaceLayer {
            limiter: self.limiter.clone(),
            key: self.key.clone(),
            max_wait: self.max_wait,
            clock: Arc::clone(&self.clock),
            holds: Arc::clone(&self.holds),
        }
    }
}

impl<D: Decider> fmt::Debug for PaceLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaceLayer").field("max_wait", &self.max_wait).finish_non_exhaustive()
    }
}

impl<S, D: Decider> Layer<S> for PaceLayer<D> {
    type Service = Pace<S, D>;

    fn layer(&self, inner: S) -> Pace<S, D> {
        Pace { inner, rules: self.clone() }
    }
}

/// A client that is paced. Made by a [`PaceLayer`]; clones share everything.
#[derive(Clone, Debug)]
pub struct Pace<S, D: Decider> {
    inner: S,
    rules: PaceLayer<D>,
}

impl<S, D, Q> Service<Q> for Pace<S, D>
where
    S: Service<Q> + Clone + Send + 'static,
    S::Response: Answered + Send,
    S::Error: Send,
    S::Future: Send,
    D: Decider,
    Q: Outgoing + Send + 'static,
{
    type Response = S::Response;
    type Error = PaceError<S::Error>;
    /// Boxed, which costs little compared with a request over a network.
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, PaceError<S::Error>>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(PaceError::Inner)
    }

    fn call(&mut self, request: Q) -> Self::Future {
        // The service that is ready handles this request; its clone is not ready yet.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let rules = self.rules.clone();
        let key = rules.key_of(&request);
        Box::pin(async move {
            rules.turn(&key).await?;
            let answer = inner.call(request).await.map_err(PaceError::Inner)?;
            rules.learn(&key, &answer);
            Ok(answer)
        })
    }
}

impl<E> From<NoTurn> for PaceError<E> {
    fn from(why: NoTurn) -> Self {
        match why {
            NoTurn::TooLong(wait) => PaceError::TooLong(wait),
            NoTurn::Store(error) => PaceError::Store(error),
        }
    }
}

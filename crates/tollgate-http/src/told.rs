//! What a response tells of a decision: read off when that is made, written when the response is there. In between it goes with the request, so it is
//! small: a few numbers, and not the decisions of up to eight limits.

use std::sync::Arc;

use http::HeaderValue;
use tollgate::algorithm::Fields;
use tollgate::{Limit, Timestamp};

use crate::decider::Outcomes;
use crate::headers::{Draft, Headers, Reset, name, quoted, seconds_up};

/// A header that tells of a decision.
///
/// ```
/// assert_eq!(tollgate_http::Field::RateLimit.name(), "ratelimit");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are the names
#[non_exhaustive]
pub enum Field {
    RateLimitPolicy,
    RateLimit,
    RateLimitLimit,
    RateLimitRemaining,
    RateLimitReset,
    XRateLimitLimit,
    XRateLimitRemaining,
    XRateLimitReset,
    RetryAfter,
}

impl Field {
    /// The name, lower case.
    ///
    /// See the example of [`Field`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Field::RateLimitPolicy => "ratelimit-policy",
            Field::RateLimit => "ratelimit",
            Field::RateLimitLimit => "ratelimit-limit",
            Field::RateLimitRemaining => "ratelimit-remaining",
            Field::RateLimitReset => "ratelimit-reset",
            Field::XRateLimitLimit => "x-ratelimit-limit",
            Field::XRateLimitRemaining => "x-ratelimit-remaining",
            Field::XRateLimitReset => "x-ratelimit-reset",
            Field::RetryAfter => "retry-after",
        }
    }
}

/// The value of a header.
///
/// ```
/// assert_eq!(String::from(tollgate_http::Value::Made("3".into())), "3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The same on every response of a limiter.
    Known(&'a HeaderValue),
    /// Of this response.
    Made(String),
}

impl From<Value<'_>> for String {
    fn from(value: Value<'_>) -> String {
        match value {
            Value::Known(value) => String::from_utf8_lossy(value.as_bytes()).into_owned(),
            Value::Made(value) => value,
        }
    }
}

/// What the headers of a response say of a decision. Made by [`Gate::told`](crate::Gate::told).
#[derive(Clone, Debug)]
pub struct Told {
    shown: Arc<Shown>,
    headers: Headers,
    /// Which of the limits is shown.
    place: usize,
    limit: u64,
    left: u64,
    /// In seconds, as all that follow.
    reset: u64,
    now: u64,
    /// Where the client is told to stay away.
    pub(crate) wait: Option<u64>,
}

impl Told {
    /// `None` without a decision.
    pub(crate) fn new(
        headers: &Headers,
        shown: &Arc<Shown>,
        outcomes: &impl Outcomes,
    ) -> Option<Told> {
        let place = outcomes.headline_index();
        let decision = outcomes.outcomes().get(place)?;
        let now = decision.now();
        // All at once: each alone would compute them anew.
        let Fields { limit, remaining, retry_at, fresh_at, .. } = decision.fields();
        let seconds_until = |at: Timestamp| seconds_up(at.since(now));
        let wait = retry_at.filter(|_| !decision.allowed()).map(|at| seconds_until(at).max(1));
        let fresh = fresh_at.map_or(0, seconds_until);
        Some(Told {
            shown: Arc::clone(shown),
            headers: headers.clone(),
            place,
            limit,
            left: remaining,
            // When there is more: what a refused cost waits for, else until the key is as good as new. Who is refused is never told that it is now.
            reset: wait.unwrap_or(if decision.allowed() { fresh } else { fresh.max(1) }),
            now: now.as_micros().div_ceil(1_000_000),
            wait: wait.filter(|_| !outcomes.allowed()),
        })
    }

    /// Units left of the limit that is shown.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// Hands out the headers.
    pub fn write(&self, mut out: impl FnMut(Field, Value<'_>)) {
        let headers = &self.headers;
        if let (Some(Draft::Ten), Some(name)) = (headers.draft, self.shown.names.get(self.place)) {
            if let Some(policies) = &self.shown.policies {
                out(Field::RateLimitPolicy, Value::Known(policies));
            }
            out(Field::RateLimit, Value::Made(self.rate_limit(name)));
        }
        let mut number = |field, number: u64| out(field, Value::Made(number.to_string()));
        if headers.three_fields {
            number(Field::RateLimitLimit, self.limit);
            number(Field::RateLimitRemaining, self.left);
            number(Field::RateLimitReset, self.reset);
        }
        if let Some(kind) = headers.x_rate_limit {
            number(Field::XRateLimitLimit, self.limit);
            number(Field::XRateLimitRemaining, self.left);
            let reset = match kind {
                Reset::Delta => self.reset,
                Reset::UnixTime => self.now.saturating_add(self.reset),
            };
            number(Field::XRateLimitReset, reset);
        }
        if let (true, Some(wait)) = (headers.retry_after, self.wait) {
            number(Field::RetryAfter, wait.saturating_add(headers.more()));
        }
    }

    /// The value of `RateLimit`. Not by `format!`, which takes as long as the decision, and in a text of just its size, which becomes a value as it is.
    fn rate_limit(&self, name: &str) -> String {
        let (mut left, mut reset) = (itoa::Buffer::new(), itoa::Buffer::new());
        [name, ";r=", left.format(self.left), ";t=", reset.format(self.reset)].concat()
    }
}

/// What is said of limits whatever is decided: made once, by who writes headers often.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::Memory;
/// use tollgate_http::{Headers, Shown};
///
/// let limiter = Memory::new().limiter("2/minute fixed-window-per-key name=api")?;
/// let (headers, shown) = (Headers::default(), Arc::new(Shown::new(&[limiter.limit().clone()])));
/// let mut written = vec![];
/// headers.write_shown(&shown, &limiter.hit("alice"), |field, value| {
///     written.push(format!("{}: {}", field.name(), String::from(value)));
/// });
/// assert_eq!(written[1], r#"ratelimit: "api";r=1;t=60"#);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shown {
    /// What each limit is called.
    labels: Box<[Arc<str>]>,
    /// The same, quoted for headers.
    names: Box<[String]>,
    /// The value of `RateLimit-Policy`. It is ASCII; if that should ever change, a response without it is better than none.
    policies: Option<HeaderValue>,
}

impl Shown {
    /// Of limits, in the order of their outcomes.
    ///
    /// See the example of [`Shown`].
    #[must_use]
    pub fn new(limits: &[Limit]) -> Shown {
        let policies: Vec<String> = limits.iter().map(policy).collect();
        let labels: Box<[Arc<str>]> = limits.iter().map(|limit| name(limit).into()).collect();
        Shown {
            names: labels.iter().map(|label| quoted(label)).collect(),
            labels,
            policies: HeaderValue::try_from(policies.join(", ")).ok(),
        }
    }

    /// What a limit is called.
    pub(crate) fn label(&self, place: usize) -> Option<&Arc<str>> {
        self.labels.get(place)
    }
}

/// A limit as a policy: what it lets pass at once, and in how many seconds all of that comes back.
fn policy(limit: &Limit) -> String {
    let capacity = if limit.algorithm().has_burst() { limit.burst() } else { limit.quota() };
    let micros = limit.period().as_micros() * u128::from(capacity);
    let window = micros.div_ceil(u128::from(limit.quota().max(1)) * 1_000_000);
    // Integers of structured fields have at most 15 digits: all of ours do.
    format!("{};q={capacity};w={window}", quoted(&name(limit)))
}

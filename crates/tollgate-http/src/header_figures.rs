//! The headers of a response as numbers, which are kept while the request is handled and become
//! text when the response is there. Servers move a request several times, and numbers are smaller
//! than header values or the outcomes of up to eight limits.

use std::sync::Arc;

use http::HeaderValue;
use tollgate::{Decision, Limit, Outcome, Timestamp, seconds_up};

use crate::headers::{Draft, Headers, Reset, name, quoted};

/// A header that describes a decision.
///
/// ```
/// assert_eq!(tollgate_http::Field::RateLimit.name(), "ratelimit");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the names")]
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

/// The numbers of the headers that describe a decision. Made by
/// [`Headers::figures`](crate::Headers::figures).
#[derive(Clone, Debug)]
pub struct HeaderFigures {
    limits: Arc<LimitHeaders>,
    remaining: u64,
    reset: u64,
    /// The index of the limit that the structured fields describe, if they are wanted.
    structured: Option<u32>,
    /// All other headers, which few responses have.
    others: Box<[(Field, u64)]>,
}

impl HeaderFigures {
    #[inline]
    pub(crate) fn new(
        headers: &Headers,
        limits: &Arc<LimitHeaders>,
        decision: &Decision,
    ) -> Option<HeaderFigures> {
        let index = described(decision);
        let outcome = decision.outcomes().get(index)?;
        let now = outcome.now();
        let seconds_until = |at: Timestamp| seconds_up(at.since(now));
        let fields = outcome.fields();
        let more = fields.retry_at.map(|at| seconds_until(at).max(1));
        let fresh = fields.fresh_at.map_or(0, seconds_until);
        // Seconds until there is more: a denied cost fits, or one unit where nothing is left.
        // Otherwise seconds until the key is fresh.
        let (wait, reset) = match (outcome.allowed(), fields.remaining) {
            (false, _) => (more, more.unwrap_or(fresh.max(1))),
            (true, 0) => (None, more.unwrap_or(fresh)),
            (true, _) => (None, fresh),
        };
        // A ban is no quota: its answer names the limit before it, with nothing left until it ends.
        let named = if outcome.banned() { decision.named_index() } else { index };
        let structured = headers.draft.and_then(|Draft::Ten| u32::try_from(named).ok());
        let others = if headers.has_others(decision.allowed()) {
            let limit = decision.outcomes().get(named).map_or(0, Outcome::limit);
            let wait = wait.filter(|_| !decision.allowed());
            others(headers, outcome, limit, reset, wait)
        } else {
            Box::default()
        };
        let (limits, remaining) = (Arc::clone(limits), fields.remaining);
        Some(HeaderFigures { limits, remaining, reset, structured, others })
    }

    /// Units left of the limit that is described.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Calls `out` with each header.
    ///
    /// See the example of [`LimitHeaders`].
    #[inline]
    pub fn write(&self, mut out: impl FnMut(Field, HeaderValue)) {
        if let Some(start) =
            self.structured.and_then(|index| self.limits.starts.get(index as usize))
        {
            if let Some(policies) = &self.limits.policies {
                out(Field::RateLimitPolicy, policies.clone());
            }
            if let Some(rate_limit) = rate_limit(start, self.remaining, self.reset) {
                out(Field::RateLimit, rate_limit);
            }
        }
        for (field, number) in &self.others {
            out(*field, (*number).into());
        }
    }
}

/// The index of the limit that headers describe: the headline. Where several limits have nothing
/// left, it is the one with the longest wait for a unit: a client that waits for another is denied.
#[inline]
fn described(decision: &Decision) -> usize {
    let index = decision.headline_index();
    let all = decision.outcomes();
    let several = all.len() > 1 && decision.allowed();
    if several && all.get(index).is_some_and(|outcome| outcome.remaining() == 0) {
        longest_wait(all).unwrap_or(index)
    } else {
        index
    }
}

/// The first of the outcomes that have nothing left and the longest wait for a unit.
#[cold]
fn longest_wait(all: &[Outcome]) -> Option<usize> {
    let wait = |index: &usize| all[*index].fields().retry_at;
    let empty = (0..all.len()).filter(|index| all[*index].remaining() == 0);
    // `max_by_key` takes the last of equals, so walk backwards.
    empty.rev().max_by_key(wait)
}

/// All but the structured fields. Cold: most responses have none.
#[cold]
fn others(
    headers: &Headers,
    outcome: &Outcome,
    limit: u64,
    reset: u64,
    wait: Option<u64>,
) -> Box<[(Field, u64)]> {
    let remaining = outcome.remaining();
    let mut others = Vec::new();
    if headers.three_fields {
        others.push((Field::RateLimitLimit, limit));
        others.push((Field::RateLimitRemaining, remaining));
        others.push((Field::RateLimitReset, reset));
    }
    if let Some(kind) = headers.x_rate_limit {
        others.push((Field::XRateLimitLimit, limit));
        others.push((Field::XRateLimitRemaining, remaining));
        let now = seconds_up(outcome.now().since(Timestamp::EPOCH));
        others.push(match kind {
            Reset::Delta => (Field::XRateLimitReset, reset),
            Reset::UnixTime => (Field::XRateLimitReset, now.saturating_add(reset)),
        });
    }
    if let (true, Some(wait)) = (headers.retry_after, wait) {
        others.push((Field::RetryAfter, wait.saturating_add(headers.jitter_seconds())));
    }
    others.into()
}

/// The value of `RateLimit`. `format!` would take as long as the decision.
fn rate_limit(start: &str, remaining: u64, reset: u64) -> Option<HeaderValue> {
    let (mut left, mut seconds) = (itoa::Buffer::new(), itoa::Buffer::new());
    let text = [start, left.format(remaining), ";t=", seconds.format(reset)].concat();
    HeaderValue::try_from(text).ok()
}

/// The parts of headers that depend on the limits alone: made once for many decisions.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::Memory;
/// use tollgate_http::{Headers, LimitHeaders};
///
/// let limiter = Memory::new().limiter("2/minute fixed-window-per-key name=api")?;
/// let limits = Arc::new(LimitHeaders::new(limiter.limits()));
/// let Some(figures) = Headers::default().figures(&limits, &limiter.hit("alice")) else { panic!() };
/// let mut written = vec![];
/// figures.write(|field, value| written.push((field.name(), value)));
/// assert_eq!(written[1].0, "ratelimit");
/// assert_eq!(written[1].1, r#""api";r=1;t=60"#);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LimitHeaders {
    /// The name of each limit.
    labels: Box<[Arc<str>]>,
    /// The start of the value of `RateLimit` for each limit.
    starts: Box<[String]>,
    /// The value of `RateLimit-Policy`. Both are ASCII; if that should ever change, a response
    /// without them is better than none.
    policies: Option<HeaderValue>,
}

impl LimitHeaders {
    /// Prepares the headers of these limits, in the order of their outcomes.
    ///
    /// See the example of [`LimitHeaders`].
    #[must_use]
    pub fn new(limits: &[Limit]) -> LimitHeaders {
        // A ban is no quota: a client that paces itself by it would wait for nothing.
        let quotas = limits.iter().filter(|limit| !limit.is_ban());
        let policies: Vec<String> = quotas.map(policy).collect();
        let labels: Box<[Arc<str>]> = limits.iter().map(|limit| name(limit).into()).collect();
        LimitHeaders {
            starts: labels.iter().map(|label| quoted(label) + ";r=").collect(),
            labels,
            policies: HeaderValue::try_from(policies.join(", ")).ok(),
        }
    }

    /// The name of a limit.
    pub(crate) fn label(&self, index: usize) -> Option<&Arc<str>> {
        self.labels.get(index)
    }
}

/// A limit as a policy: its capacity, and the seconds in which all of that comes back.
fn policy(limit: &Limit) -> String {
    let capacity = if limit.algorithm().has_burst() { limit.burst() } else { limit.quota() };
    let micros = limit.period().as_micros() * u128::from(capacity);
    let window = micros.div_ceil(u128::from(limit.quota().max(1)) * 1_000_000);
    // Integers of structured fields have at most 15 digits: all of ours do.
    format!("{};q={capacity};w={window}", quoted(&name(limit)))
}

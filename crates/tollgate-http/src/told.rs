//! What a response tells of a decision: figures that go with the request, and become text when the
//! response is there. Servers move a request about several times, and figures are less to carry
//! than values, or the decisions of up to eight limits.

use std::sync::Arc;

use http::HeaderValue;
use tollgate::{Decision, Limit, Outcome, Timestamp};

use crate::headers::{Draft, Headers, Reset, name, quoted};

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

/// What the headers of a response say of a decision. Made by [`Gate::told`](crate::Gate::told).
#[derive(Clone, Debug)]
pub struct Told {
    shown: Arc<Shown>,
    figures: Figures,
}

impl Told {
    /// `None` without a decision.
    #[inline]
    pub(crate) fn new(headers: &Headers, shown: &Arc<Shown>, outcomes: &Decision) -> Option<Told> {
        let figures = Figures::of(headers, outcomes)?;
        Some(Told { shown: Arc::clone(shown), figures })
    }

    /// Units left of the limit that is shown.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.figures.remaining
    }

    /// Hands out the headers.
    #[inline]
    pub fn write(&self, out: impl FnMut(Field, HeaderValue)) {
        self.figures.write(&self.shown, out);
    }
}

/// All that headers need of a decision.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    remaining: u64,
    reset: u64,
    /// The limit that the structured fields tell of, if they are wanted.
    structured: Option<u32>,
    /// All others, which few responses have.
    others: Box<[(Field, u64)]>,
}

impl Figures {
    /// `None` without a decision.
    #[inline]
    pub(crate) fn of(headers: &Headers, outcomes: &Decision) -> Option<Figures> {
        let place = shown_place(outcomes);
        let decision = outcomes.outcomes().get(place)?;
        let now = decision.now();
        let seconds_until = |at: Timestamp| {
            let micros = at.as_micros().saturating_sub(now.as_micros());
            micros.div_ceil(1_000_000)
        };
        let fields = decision.fields();
        let more = fields.retry_at.map(|at| seconds_until(at).max(1));
        let fresh = fields.fresh_at.map_or(0, seconds_until);
        // Seconds until there is more: a refused cost passes, or one unit where nothing is left.
        // Otherwise seconds until the key is as good as new.
        let (wait, reset) = match (decision.allowed(), fields.remaining) {
            (false, _) => (more, more.unwrap_or(fresh.max(1))),
            (true, 0) => (None, more.unwrap_or(fresh)),
            (true, _) => (None, fresh),
        };
        let remaining = fields.remaining;
        let structured = headers.draft.and_then(|Draft::Ten| u32::try_from(place).ok());
        let others = if headers.tells_others(outcomes.allowed()) {
            others(headers, decision, reset, wait.filter(|_| !outcomes.allowed()))
        } else {
            Box::default()
        };
        Some(Figures { remaining, reset, structured, others })
    }

    #[inline]
    pub(crate) fn write(&self, shown: &Shown, mut out: impl FnMut(Field, HeaderValue)) {
        if let Some(start) = self.structured.and_then(|place| shown.starts.get(place as usize)) {
            if let Some(policies) = &shown.policies {
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

/// The place of the limit that is shown: the headline. Where several limits have nothing left, it
/// is the one that takes longest to have a unit again: a client that waits for another is refused.
#[inline]
fn shown_place(outcomes: &Decision) -> usize {
    let place = outcomes.headline_index();
    let all = outcomes.outcomes();
    let several = all.len() > 1 && outcomes.allowed();
    if several && all.get(place).is_some_and(|decision| decision.remaining() == 0) {
        longest_wait(all).unwrap_or(place)
    } else {
        place
    }
}

/// The first of the decisions that have nothing left and the longest wait for a unit.
#[cold]
fn longest_wait(all: &[Outcome]) -> Option<usize> {
    let wait = |index: &usize| all[*index].fields().retry_at;
    let empty = (0..all.len()).filter(|index| all[*index].remaining() == 0);
    // `max_by_key` takes the last of equals, so walk backwards.
    empty.rev().max_by_key(wait)
}

/// All but the structured ones. Apart: most responses have none.
#[cold]
fn others(
    headers: &Headers,
    decision: &Outcome,
    reset: u64,
    wait: Option<u64>,
) -> Box<[(Field, u64)]> {
    let (limit, remaining) = (decision.limit(), decision.remaining());
    let mut others = Vec::new();
    if headers.three_fields {
        others.push((Field::RateLimitLimit, limit));
        others.push((Field::RateLimitRemaining, remaining));
        others.push((Field::RateLimitReset, reset));
    }
    if let Some(kind) = headers.x_rate_limit {
        others.push((Field::XRateLimitLimit, limit));
        others.push((Field::XRateLimitRemaining, remaining));
        let now = decision.now().as_micros().div_ceil(1_000_000);
        others.push(match kind {
            Reset::Delta => (Field::XRateLimitReset, reset),
            Reset::UnixTime => (Field::XRateLimitReset, now.saturating_add(reset)),
        });
    }
    if let (true, Some(wait)) = (headers.retry_after, wait) {
        others.push((Field::RetryAfter, wait.saturating_add(headers.more())));
    }
    others.into()
}

/// The value of `RateLimit`. Not by `format!`, which takes as long as the decision, and in a text
/// of just its size, which becomes a value as it is.
fn rate_limit(start: &str, remaining: u64, reset: u64) -> Option<HeaderValue> {
    let (mut left, mut seconds) = (itoa::Buffer::new(), itoa::Buffer::new());
    let text = [start, left.format(remaining), ";t=", seconds.format(reset)].concat();
    HeaderValue::try_from(text).ok()
}

/// What is said of limits whatever is decided: made once, by who writes headers often.
///
/// ```
/// use tollgate::Memory;
/// use tollgate_http::{Headers, Shown};
///
/// let limiter = Memory::new().limiter("2/minute fixed-window-per-key name=api")?;
/// let (headers, shown) = (Headers::default(), Shown::new(limiter.limits()));
/// let mut written = vec![];
/// headers.write_shown(&shown, &limiter.hit("alice"), |field, value| {
///     written.push((field.name(), value));
/// });
/// assert_eq!(written[1].0, "ratelimit");
/// assert_eq!(written[1].1, r#""api";r=1;t=60"#);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shown {
    /// What each limit is called.
    labels: Box<[Arc<str>]>,
    /// How the value of `RateLimit` begins for each.
    starts: Box<[String]>,
    /// The value of `RateLimit-Policy`. Both are ASCII; if that should ever change, a response
    /// without them is better than none.
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
            starts: labels.iter().map(|label| quoted(label) + ";r=").collect(),
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

//! What a response tells of a decision.
//!
//! `RateLimit-Policy` and `RateLimit` follow draft-ietf-httpapi-ratelimit-headers-10, as lists of structured fields (RFC 9651). The names of parameters have changed
//! between drafts and may again, so the draft is a setting. Seconds are rounded up: who waits as long as told is never too early.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tollgate::{Decision, Limit};

use crate::decider::Outcomes;

/// Which headers a response gets.
///
/// ```
/// use tollgate::Memory;
/// use tollgate_http::{Headers, Reset};
///
/// let limiter = Memory::new().limiter("2/minute fixed-window-per-key name=api")?;
/// let decision = limiter.hit("alice");
/// let mut written = vec![];
/// Headers::default()
///     .x_rate_limit(Reset::Delta)
///     .write(&[limiter.limit().clone()], &decision, |name, value| written.push(format!("{name}: {value}")));
/// assert_eq!(
///     written,
///     [
///         r#"ratelimit-policy: "api";q=2;w=60"#,
///         r#"ratelimit: "api";r=1;t=60"#,
///         "x-ratelimit-limit: 2",
///         "x-ratelimit-remaining: 1",
///         "x-ratelimit-reset: 60",
///     ]
/// );
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    draft: Option<Draft>,
    three_fields: bool,
    x_rate_limit: Option<Reset>,
    retry_after: bool,
    jitter: Duration,
}

/// Which version of the `RateLimit` fields.
///
/// ```
/// let headers = tollgate_http::Headers::none().rate_limit(tollgate_http::Draft::Ten);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Draft {
    /// draft-ietf-httpapi-ratelimit-headers-10: `"name";q=100;w=60` and `"name";r=50;t=30`.
    Ten,
}

/// What the reset of older headers is.
///
/// See the example of [`Headers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds since 1970, as GitHub has it.
    UnixTime,
    /// Seconds from now, as Envoy has it.
    Delta,
}

impl Default for Headers {
    /// `RateLimit`, `RateLimit-Policy` and `Retry-After`.
    fn default() -> Self {
        Headers { draft: Some(Draft::Ten), retry_after: true, ..Headers::none() }
    }
}

impl Headers {
    /// None at all.
    ///
    /// ```
    /// let headers = tollgate_http::Headers::none().retry_after(true);
    /// ```
    #[must_use]
    pub const fn none() -> Headers {
        Headers {
            draft: None,
            three_fields: false,
            x_rate_limit: None,
            retry_after: false,
            jitter: Duration::ZERO,
        }
    }

    /// `RateLimit` and `RateLimit-Policy` of that draft.
    ///
    /// See the example of [`Draft`].
    #[must_use]
    pub const fn rate_limit(mut self, draft: Draft) -> Self {
        self.draft = Some(draft);
        self
    }

    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, as drafts up to 6 had it.
    ///
    /// ```
    /// let headers = tollgate_http::Headers::none().three_fields();
    /// ```
    #[must_use]
    pub const fn three_fields(mut self) -> Self {
        self.three_fields = true;
        self
    }

    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    ///
    /// See the example of [`Headers`].
    #[must_use]
    pub const fn x_rate_limit(mut self, reset: Reset) -> Self {
        self.x_rate_limit = Some(reset);
        self
    }

    /// Whether a refusal says `Retry-After`.
    ///
    /// See the example of [`Headers::none`].
    #[must_use]
    pub const fn retry_after(mut self, wanted: bool) -> Self {
        self.retry_after = wanted;
        self
    }

    /// Adds up to that much to `Retry-After`, at random, so that all who were refused do not come back at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let headers = tollgate_http::Headers::default().jitter(Duration::from_secs(5));
    /// ```
    #[must_use]
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Hands out names and values. `limits` are those of the outcomes, in order. With several limits the one that binds is shown.
    ///
    /// See the example of [`Headers`].
    pub fn write(
        &self,
        limits: &[Limit],
        outcomes: &impl Outcomes,
        mut out: impl FnMut(&'static str, String),
    ) {
        self.write_shown(&Shown::new(limits), outcomes, &mut out);
    }

    /// [`write`](Headers::write) with what does not change made before.
    pub(crate) fn write_shown(
        &self,
        shown: &Shown,
        outcomes: &impl Outcomes,
        out: &mut impl FnMut(&'static str, String),
    ) {
        let index = outcomes.headline_index();
        let (Some(name), Some(decision)) = (shown.names.get(index), outcomes.outcomes().get(index))
        else {
            return;
        };
        let reset = seconds_until_more(decision);
        if let Some(Draft::Ten) = self.draft {
            out("ratelimit-policy", shown.policies.clone());
            out("ratelimit", format!("{name};r={};t={reset}", decision.remaining()));
        }
        let (most, left) = (|| decision.limit().to_string(), || decision.remaining().to_string());
        if self.three_fields {
            out("ratelimit-limit", most());
            out("ratelimit-remaining", left());
            out("ratelimit-reset", reset.to_string());
        }
        if let Some(kind) = self.x_rate_limit {
            out("x-ratelimit-limit", most());
            out("x-ratelimit-remaining", left());
            let now = decision.now().as_micros();
            let reset = match kind {
                Reset::Delta => reset,
                Reset::UnixTime => now.div_ceil(1_000_000).saturating_add(reset),
            };
            out("x-ratelimit-reset", reset.to_string());
        }
        if self.retry_after
            && !outcomes.allowed()
            && let Some(wait) = decision.retry_after()
        {
            let seconds = seconds_up(wait).max(1).saturating_add(self.more());
            out("retry-after", seconds.to_string());
        }
    }

    /// Seconds of jitter.
    fn more(&self) -> u64 {
        match self.jitter.as_secs() {
            0 => 0,
            most => RandomState::new().hash_one(0) % (most + 1),
        }
    }
}

/// What headers say of limits whatever is decided: made once.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// Of each limit its name, quoted.
    names: Box<[String]>,
    /// The value of `RateLimit-Policy`.
    policies: String,
}

impl Shown {
    pub(crate) fn new(limits: &[Limit]) -> Shown {
        let policies: Vec<String> = limits.iter().map(policy).collect();
        let quoted = |limit: &Limit| quoted(&name(limit));
        Shown { names: limits.iter().map(quoted).collect(), policies: policies.join(", ") }
    }
}

/// Whole seconds that cover a span.
pub(crate) fn seconds_up(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

/// When there is more: what a refused cost waits for, else until the key is as good as new. Who is refused is never told that it is now.
fn seconds_until_more(decision: &Decision) -> u64 {
    if decision.allowed() {
        return seconds_up(decision.reset_after());
    }
    seconds_up(decision.retry_after().unwrap_or_else(|| decision.reset_after())).max(1)
}

/// What a limit is called in headers: its name, or what it says.
pub(crate) fn name(limit: &Limit) -> String {
    limit.name().map_or_else(|| limit.to_string(), str::to_owned)
}

/// A limit as a policy: what it lets pass at once, and in how many seconds all of that comes back.
fn policy(limit: &Limit) -> String {
    let capacity = if limit.algorithm().has_burst() { limit.burst() } else { limit.quota() };
    let micros = limit.period().as_micros() * u128::from(capacity);
    let window = micros.div_ceil(u128::from(limit.quota().max(1)) * 1_000_000);
    // Integers of structured fields have at most 15 digits: all of ours do.
    format!("{};q={capacity};w={window}", quoted(&name(limit)))
}

/// A string of a structured field: printable ASCII; whatever else a name holds is shown as an underscore.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => out.push('_'),
        }
    }
    out.push('"');
    out
}

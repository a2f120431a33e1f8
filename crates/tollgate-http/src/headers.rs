//! The headers that describe a decision.
//!
//! `RateLimit-Policy` and `RateLimit` follow draft-ietf-httpapi-ratelimit-headers-10, as lists of
//! structured fields (RFC 9651). The names of parameters have changed between drafts and may again,
//! so the draft is a setting. Seconds are rounded up: a client that waits for them is never early.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Decision, Limit};

use crate::header_figures::{HeaderFigures, LimitHeaders};

/// The headers of a response.
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
///     .write(limiter.limits(), &decision, |name, value| written.push(format!("{name}: {value}")));
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
    pub(crate) draft: Option<Draft>,
    pub(crate) three_fields: bool,
    pub(crate) x_rate_limit: Option<Reset>,
    pub(crate) retry_after: bool,
    jitter: Duration,
}

/// The version of the `RateLimit` fields.
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

/// The meaning of the reset in older headers.
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
    /// No headers.
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

    /// Whether a refusal has `Retry-After`.
    ///
    /// See the example of [`Headers::none`].
    #[must_use]
    pub const fn retry_after(mut self, wanted: bool) -> Self {
        self.retry_after = wanted;
        self
    }

    /// Adds a random time of at most `jitter` to `Retry-After`, so that refused clients do not all
    /// come back in the same second.
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

    /// Adds the headers that settings call by this name, in any case: `ratelimit`,
    /// `ratelimit-limit`, `x-ratelimit`, `x-ratelimit-unix` or `retry-after`. `None` for any other
    /// name.
    ///
    /// ```
    /// use tollgate_http::{Headers, Reset};
    /// let named = Headers::none().named("X-RateLimit").unwrap();
    /// assert_eq!(named, Headers::none().x_rate_limit(Reset::Delta));
    /// assert!(Headers::none().named("server").is_none());
    /// ```
    #[must_use]
    pub fn named(self, name: &str) -> Option<Headers> {
        Some(match &name.to_ascii_lowercase()[..] {
            "ratelimit" => self.rate_limit(Draft::Ten),
            "ratelimit-limit" => self.three_fields(),
            "x-ratelimit" => self.x_rate_limit(Reset::Delta),
            "x-ratelimit-unix" => self.x_rate_limit(Reset::UnixTime),
            "retry-after" => self.retry_after(true),
            _ => return None,
        })
    }

    /// Calls `out` with the names and values of a decision on `limits`. Of several limits the
    /// headline is described.
    ///
    /// See the example of [`Headers`].
    pub fn write(
        &self,
        limits: &[Limit],
        decision: &Decision,
        mut out: impl FnMut(&'static str, String),
    ) {
        if let Some(figures) = self.figures(&Arc::new(LimitHeaders::new(limits)), decision) {
            figures.write(|field, value| {
                // Our values are ASCII.
                out(field.name(), String::from_utf8_lossy(value.as_bytes()).into_owned());
            });
        }
    }

    /// The numbers of the headers of a decision; `None` if the response gets none.
    ///
    /// See the example of [`LimitHeaders`].
    #[must_use]
    #[inline]
    pub fn figures(
        &self,
        limits: &Arc<LimitHeaders>,
        decision: &Decision,
    ) -> Option<HeaderFigures> {
        let wanted = self.draft.is_some() || self.has_others(decision.allowed());
        if wanted { HeaderFigures::new(self, limits, decision) } else { None }
    }

    /// Whether a response has any header but the structured fields.
    pub(crate) fn has_others(&self, allowed: bool) -> bool {
        self.three_fields || self.x_rate_limit.is_some() || (self.retry_after && !allowed)
    }

    /// Random seconds to add to `Retry-After`.
    pub(crate) fn jitter_seconds(&self) -> u64 {
        match self.jitter.as_secs() {
            0 => 0,
            most => RandomState::new().hash_one(0) % (most + 1),
        }
    }
}

/// The name of a limit in headers; without one, its text.
pub(crate) fn name(limit: &Limit) -> String {
    limit.name().map_or_else(|| limit.to_string(), str::to_owned)
}

/// A string of a structured field, which is printable ASCII: other characters become underscores.
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

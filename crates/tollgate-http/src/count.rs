//! Counters for the recorder of the crate `metrics`, by limit and outcome, never by key: clients
//! invent any number of keys. Without the feature nothing is counted.
//!
//! - `tollgate_http_requests_total{limit, outcome}`; an outcome is `allowed`, `denied`, `shadow`
//!   (would have been denied), `unlimited` or `error`
//! - `tollgate_http_decision_seconds{limit}`: how long decisions took, including the wait of a gate
//!   that waits

use std::sync::Arc;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Allowed,
    Denied,
    Shadow,
    Unlimited,
    Error,
}

#[cfg(feature = "metrics")]
impl Counted {
    const fn label(self) -> &'static str {
        match self {
            Counted::Allowed => "allowed",
            Counted::Denied => "denied",
            Counted::Shadow => "shadow",
            Counted::Unlimited => "unlimited",
            Counted::Error => "error",
        }
    }
}

#[cfg(feature = "metrics")]
const REQUESTS: &str = "tollgate_http_requests_total";
#[cfg(feature = "metrics")]
const SECONDS: &str = "tollgate_http_decision_seconds";
#[cfg(feature = "metrics")]
const NO_LIMIT: &str = "none";

/// Counts a request on which no limit decided.
#[cfg_attr(not(feature = "metrics"), expect(unused_variables))]
pub(crate) fn count_undecided(outcome: Counted) {
    #[cfg(feature = "metrics")]
    metrics::counter!(REQUESTS, "limit" => NO_LIMIT, "outcome" => outcome.label()).increment(1);
}

/// Measures how long a decision takes.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch {
    #[cfg(feature = "metrics")]
    start: tollgate::Timestamp,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch {
            #[cfg(feature = "metrics")]
            start: now(),
        }
    }

    /// Counts a decision under the limit of its headline. The label is shared by all requests.
    #[cfg_attr(not(feature = "metrics"), expect(unused_variables))]
    pub(crate) fn decided(self, label: Option<&Arc<str>>, outcome: Counted) {
        #[cfg(feature = "metrics")]
        {
            let limit = label.map_or(metrics::SharedString::const_str(NO_LIMIT), |label| {
                metrics::SharedString::from_shared(Arc::clone(label))
            });
            let seconds = now().since(self.start).as_secs_f64();
            metrics::histogram!(SECONDS, "limit" => limit.clone()).record(seconds);
            metrics::counter!(REQUESTS, "limit" => limit, "outcome" => outcome.label())
                .increment(1);
        }
    }
}

#[cfg(feature = "metrics")]
fn now() -> tollgate::Timestamp {
    use tollgate::Clock;
    tollgate::SystemClock::new().now()
}

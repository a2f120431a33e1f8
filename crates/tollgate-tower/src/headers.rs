//! Headers of a decision on a response that may have some already.

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_http::{Decider, Gate, Outcomes, Pass};

/// Adds the headers of a decision. Where another layer has written some, the structured ones are lists and get longer; of the older ones those of the
/// limit with less left stay.
pub(crate) fn write_headers<D: Decider>(gate: &Gate<D>, pass: &Pass<D>, headers: &mut HeaderMap) {
    let mut kept = None;
    gate.write_headers(pass, |name, value| {
        // They are ASCII; if that should ever change, a response without one is better than none.
        let Ok(value) = HeaderValue::try_from(value) else { return };
        let key = HeaderName::from_static(name);
        if matches!(name, "ratelimit" | "ratelimit-policy") {
            headers.append(key, value);
            return;
        }
        // Looked at only where older ones are wanted.
        let kept = kept.get_or_insert_with(|| older(headers, pass));
        if !kept.iter().any(|(prefix, keep)| *keep && name.starts_with(prefix)) {
            headers.insert(key, value);
        }
    });
}

/// The kinds of older headers, and whether those that are there bind more than this decision.
fn older<D: Decider>(headers: &HeaderMap, pass: &Pass<D>) -> [(&'static str, bool); 2] {
    let left = pass.outcomes().headline().remaining();
    let binds = |name: &str| {
        let there = headers.get(name).and_then(|value| value.to_str().ok());
        there.and_then(|value| value.parse::<u64>().ok()).is_some_and(|there| there <= left)
    };
    [("x-ratelimit-", binds("x-ratelimit-remaining")), ("ratelimit-", binds("ratelimit-remaining"))]
}

//! Headers: those of a request as `tollgate-http` reads them, and those of a response.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use tollgate_http::{Decider, Gate, Lines, Pass};

/// actix-web has its own map of headers.
pub(crate) struct Fields<'a>(pub(crate) &'a HeaderMap);

impl Lines for Fields<'_> {
    fn line(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(HeaderValue::as_bytes)
    }

    fn lines(&self, name: &str) -> Vec<&[u8]> {
        self.0.get_all(name).map(HeaderValue::as_bytes).collect()
    }
}

/// Adds the headers of a decision. Limits may be nested: the structured fields are lists and tell
/// of all of them, the older ones of the limit with less left. What a refusal of the user's own
/// says in `Retry-After` stays.
pub(crate) fn tell<D: Decider>(gate: &Gate<D>, pass: &Pass<D>, headers: &mut HeaderMap) {
    let left = pass.outcomes().headline().remaining();
    let binds = |name: &str| {
        let there = headers.get(name).and_then(|value| value.to_str().ok());
        there.and_then(|value| value.parse::<u64>().ok()).is_some_and(|there| there <= left)
    };
    let keep_x = binds("x-ratelimit-remaining");
    let keep_three = binds("ratelimit-remaining");
    gate.write_headers(pass, |name, value| {
        // They are ASCII; if that should ever change, a response without one is better than none.
        let Ok(value) = HeaderValue::try_from(value) else { return };
        let key = HeaderName::from_static(name);
        let keep = match name {
            "ratelimit" | "ratelimit-policy" => return headers.append(key, value),
            "retry-after" => headers.contains_key(&key),
            _ if name.starts_with("x-") => keep_x,
            _ => keep_three,
        };
        if !keep {
            headers.insert(key, value);
        }
    });
}

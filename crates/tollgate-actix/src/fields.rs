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

/// Adds what a decision says. Limits may be nested: the two fields that are lists then tell of all, the others of the one nearest to the handler.
pub(crate) fn tell<D: Decider>(gate: &Gate<D>, pass: &Pass<D>, headers: &mut HeaderMap) {
    gate.write_headers(pass, |name, value| {
        let name = HeaderName::from_static(name);
        let Ok(value) = HeaderValue::try_from(value) else { return };
        let list = matches!(name.as_str(), "ratelimit" | "ratelimit-policy");
        if list || !headers.contains_key(&name) {
            headers.append(name, value);
        }
    });
}

//! Headers: those of a request as `tollgate-http` reads them, and those of a response.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use tollgate_http::{Field, HeaderFigures, Lines};

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

/// Adds the headers of a decision. Limits may be nested: the structured fields are lists and
/// describe all of them, the older headers the limit with less left. `Retry-After` of a response of
/// the user's own stays.
pub(crate) fn write_headers(figures: &HeaderFigures, headers: &mut HeaderMap) {
    let left = figures.remaining();
    let binds = |field: Field| {
        let there = headers.get(field.name()).and_then(|value| value.to_str().ok());
        there.and_then(|value| value.parse::<u64>().ok()).is_some_and(|there| there <= left)
    };
    let keep_x = binds(Field::XRateLimitRemaining);
    let keep_three = binds(Field::RateLimitRemaining);
    figures.write(|field, value| {
        // Always a valid value; if that should ever change, a response without one is better than
        // none.
        let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) else { return };
        let name = HeaderName::from_static(field.name());
        let keep = match field {
            Field::RateLimit | Field::RateLimitPolicy => return headers.append(name, value),
            Field::RetryAfter => headers.contains_key(&name),
            Field::XRateLimitLimit | Field::XRateLimitRemaining | Field::XRateLimitReset => keep_x,
            _ => keep_three,
        };
        if !keep {
            headers.insert(name, value);
        }
    });
}

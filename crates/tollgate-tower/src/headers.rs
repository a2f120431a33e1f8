//! Adds the headers of a decision to a response that may have some already.

use http::{HeaderMap, HeaderName};
use tollgate_http::{Field, HeaderFigures};

/// Adds the headers of a decision. Where another layer has written some, the structured fields are
/// lists and get longer; of the older headers those of the limit with less left stay.
pub(crate) fn write_headers(figures: &HeaderFigures, headers: &mut HeaderMap) {
    let remaining = figures.remaining();
    let mut kept = None;
    figures.write(|field, value| {
        // Read only where older headers are wanted.
        let mut older = || *kept.get_or_insert_with(|| Older::among(headers, remaining));
        let keep = match field {
            Field::RateLimitPolicy => {
                headers.append(RATE_LIMIT_POLICY, value);
                return;
            }
            Field::RateLimit => {
                headers.append(RATE_LIMIT, value);
                return;
            }
            Field::RateLimitLimit | Field::RateLimitRemaining | Field::RateLimitReset => {
                older().three_fields
            }
            Field::XRateLimitLimit | Field::XRateLimitRemaining | Field::XRateLimitReset => {
                older().x_rate_limit
            }
            _ => false,
        };
        if !keep {
            headers.insert(HeaderName::from_static(field.name()), value);
        }
    });
}

// These names are on every response, so they are made at compile time.
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static(Field::RateLimitPolicy.name());
const RATE_LIMIT: HeaderName = HeaderName::from_static(Field::RateLimit.name());

/// The older headers that are present and describe a limit with less left.
#[derive(Clone, Copy)]
struct Older {
    three_fields: bool,
    x_rate_limit: bool,
}

impl Older {
    fn among(headers: &HeaderMap, left: u64) -> Older {
        let binds = |field: Field| {
            let there = headers.get(field.name()).and_then(|value| value.to_str().ok());
            there.and_then(|value| value.parse::<u64>().ok()).is_some_and(|there| there <= left)
        };
        Older {
            three_fields: binds(Field::RateLimitRemaining),
            x_rate_limit: binds(Field::XRateLimitRemaining),
        }
    }
}

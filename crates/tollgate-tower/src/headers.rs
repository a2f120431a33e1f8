//! Headers of a decision on a response that may have some already.

use http::{HeaderMap, HeaderName};
use tollgate_http::{Field, Told};

/// Adds the headers of a decision. Where another layer has written some, the structured ones are
/// lists and get longer; of the older ones those of the limit with less left stay.
pub(crate) fn write_headers(told: &Told, headers: &mut HeaderMap) {
    let remaining = told.remaining();
    let mut kept = None;
    told.write(|field, value| {
        // Looked at only where older ones are wanted.
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

// Names that are on every response: made when this is compiled.
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static(Field::RateLimitPolicy.name());
const RATE_LIMIT: HeaderName = HeaderName::from_static(Field::RateLimit.name());

/// Which of the older headers are there that bind more than a decision with so much left.
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

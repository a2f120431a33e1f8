//! CORS preflight requests, which a browser sends to ask whether another site may send a request.

use crate::forwarded::trim;
use crate::head::Head;

/// Whether a browser could have sent this as a preflight: `OPTIONS` with an `Origin` and with a
/// method in `Access-Control-Request-Method`. Anybody else can send the same.
pub(crate) fn is_preflight(head: &Head<'_>) -> bool {
    head.method == "OPTIONS"
        && head.line("origin").is_some_and(|origin| !trim(origin).is_empty())
        && head.line("access-control-request-method").is_some_and(|method| is_token(trim(method)))
}

/// A token of RFC 9110, as methods are.
pub(crate) fn is_token(text: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(allowed)
}

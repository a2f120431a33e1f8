//! The dashboard: a page of HTML, JavaScript and CSS in the binary. It holds no data, so everybody
//! may load it; the API behind it asks for a token.

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};

use crate::http::{Reply, bytes};

/// Nothing is loaded from other hosts, and no other page may show this one in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, media type and content.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("page/dashboard.html")),
    ("/favicon.svg", "image/svg+xml", include_str!("page/favicon.svg")),
    ("/dashboard/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/dashboard/theme.js", JAVASCRIPT, include_str!("page/theme.js")),
    ("/dashboard/main.js", JAVASCRIPT, include_str!("page/main.js")),
    ("/dashboard/api.js", JAVASCRIPT, include_str!("page/api.js")),
    ("/dashboard/dom.js", JAVASCRIPT, include_str!("page/dom.js")),
    ("/dashboard/chart.js", JAVASCRIPT, include_str!("page/chart.js")),
    ("/dashboard/overview.js", JAVASCRIPT, include_str!("page/overview.js")),
    ("/dashboard/rules.js", JAVASCRIPT, include_str!("page/rules.js")),
    ("/dashboard/keys.js", JAVASCRIPT, include_str!("page/keys.js")),
    ("/dashboard/store.js", JAVASCRIPT, include_str!("page/store.js")),
    ("/dashboard/playground.js", JAVASCRIPT, include_str!("page/playground.js")),
];

/// The file of a path. `None` if no file has this path, or if it is `/` and the client does not
/// accept HTML.
pub(super) fn file<B>(request: &Request<B>) -> Option<Response<Reply>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let path = request.uri().path();
    let (_, kind, content) = FILES.iter().find(|(known, ..)| *known == path)?;
    if path == "/" && !accepts_html(request.headers()) {
        return None;
    }
    let mut response = bytes(StatusCode::OK, (*content).into());
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, &POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, &"nosniff"),
        (header::REFERRER_POLICY, &"no-referrer"),
        (header::VARY, &"accept"),
        // A new version of the server has new files.
        (header::CACHE_CONTROL, &"no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Some(response)
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accepts = |value: &HeaderValue| {
        value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("text/html"))
    };
    headers.get_all(header::ACCEPT).iter().any(accepts)
}

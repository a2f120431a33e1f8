//! The body of a refusal for programs: `application/problem+json` (RFC 9457).

use std::fmt::Write as _;

use tollgate::{Limit, Outcome};

use crate::headers::name;

/// The media type of [`problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// A body that names the policies that denied the request.
///
/// ```
/// use tollgate::Memory;
/// let limiter = Memory::new().limiter("1/minute name=login")?;
/// limiter.hit("a");
/// let body = tollgate_http::problem(429, limiter.limits(), limiter.hit("a").outcomes());
/// assert!(body.contains(r#""violated-policies":["login"]"#), "{body}");
/// # Ok::<(), tollgate::Error>(())
/// ```
#[must_use]
pub fn problem(status: u16, limits: &[Limit], outcomes: &[Outcome]) -> String {
    let banned = outcomes.iter().any(Outcome::banned);
    // While a key is banned, the other limits were not asked.
    let refuses = |d: &Outcome| if banned { d.banned() } else { !d.allowed() };
    let refusing: Vec<_> = limits.iter().zip(outcomes).filter(|(_, d)| refuses(d)).collect();
    let names: Vec<String> = refusing.iter().map(|(limit, _)| json(&name(limit))).collect();
    // A denial without a retry time has the longest wait.
    let wait = refusing.iter().try_fold(0, |longest: u64, (_, decision)| {
        decision.retry_after().map(|wait| longest.max(tollgate::seconds_up(wait).max(1)))
    });
    let detail = match wait {
        Some(seconds) if banned => {
            format!("banned after too many denials, for {seconds} more seconds")
        }
        Some(1) => "come back in 1 second".to_owned(),
        Some(seconds) => format!("come back in {seconds} seconds"),
        None => "this request costs more than the quota ever allows".to_owned(),
    };
    format!(
        r#"{{"type":"{QUOTA_EXCEEDED}","title":"Too many requests","status":{status},"detail":{},"violated-policies":[{}]}}"#,
        json(&detail),
        names.join(",")
    )
}

/// A JSON string. Written by hand, because nothing else here is JSON.
fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

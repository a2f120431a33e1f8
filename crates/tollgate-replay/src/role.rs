//! The meanings of values, and the names that logs give them.

/// The meaning of a value in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// When the request began.
    Start,
    /// When the line was written, after the response.
    End,
    /// How long the request took.
    Duration(Unit),
    /// The address of the client or of the last proxy.
    Client,
    /// `X-Forwarded-For`.
    Forwarded,
    /// `Forwarded` (RFC 7239).
    ForwardedStandard,
    /// Method, target and version in one: `GET /path HTTP/1.1`.
    Request,
    /// The method.
    Method,
    /// The path, with or without a query.
    Path,
    /// The status of the response.
    Status,
    /// A mark of a request that was limited: Envoy's response flags, `$limit_req_status` of nginx.
    Limited,
}

/// The unit of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Seconds where the number has decimals, milliseconds where it has none: Caddy and Envoy use
    /// one name for both.
    SecondsOrMillis,
    /// Seconds, with decimals.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
    /// The last of several numbers of milliseconds, as in `10/0/30/69/109` of HAProxy.
    LastMillis,
}

/// The names that servers use. Earlier names win where a line has several of one role.
const NAMES: &[(&str, Role)] = &[
    // Traefik, Envoy, HAProxy, AWS.
    ("StartUTC", Role::Start),
    ("start_time", Role::Start),
    ("accept_date", Role::Start),
    ("request_creation_time", Role::Start),
    ("time_start", Role::Start),
    // nginx, Caddy, CloudFront. The most exact first.
    ("msec", Role::End),
    ("ts", Role::End),
    ("time_iso8601", Role::End),
    ("time_local", Role::End),
    (super::columns::DATE_TIME, Role::End),
    ("time_end", Role::End),
    ("@timestamp", Role::End),
    ("timestamp", Role::End),
    ("time", Role::End),
    ("request_time", Role::Duration(Unit::Seconds)),
    // CloudFront writes seconds, IIS milliseconds.
    ("time-taken", Role::Duration(Unit::SecondsOrMillis)),
    ("Duration", Role::Duration(Unit::Nanos)),
    ("duration", Role::Duration(Unit::SecondsOrMillis)),
    ("duration_ms", Role::Duration(Unit::Millis)),
    ("duration_us", Role::Duration(Unit::Micros)),
    ("duration_ns", Role::Duration(Unit::Nanos)),
    ("haproxy_timers", Role::Duration(Unit::LastMillis)),
    ("remote_addr", Role::Client),
    ("request.client_ip", Role::Client),
    ("request.remote_ip", Role::Client),
    ("ClientHost", Role::Client),
    ("c-ip", Role::Client),
    ("client_ip", Role::Client),
    ("client", Role::Client),
    ("ip", Role::Client),
    ("downstream_remote_address", Role::Client),
    ("http_x_forwarded_for", Role::Forwarded),
    ("x_forwarded_for", Role::Forwarded),
    ("x-forwarded-for", Role::Forwarded),
    ("request_X-Forwarded-For", Role::Forwarded),
    ("request.headers.X-Forwarded-For", Role::Forwarded),
    ("http_forwarded", Role::ForwardedStandard),
    ("request_Forwarded", Role::ForwardedStandard),
    ("request.headers.Forwarded", Role::ForwardedStandard),
    ("request", Role::Request),
    ("request_method", Role::Method),
    ("RequestMethod", Role::Method),
    ("request.method", Role::Method),
    ("cs-method", Role::Method),
    ("method", Role::Method),
    ("request_uri", Role::Path),
    ("RequestPath", Role::Path),
    ("request.uri", Role::Path),
    ("cs-uri-stem", Role::Path),
    ("path", Role::Path),
    ("uri", Role::Path),
    ("status", Role::Status),
    ("DownstreamStatus", Role::Status),
    ("response_code", Role::Status),
    ("sc-status", Role::Status),
    ("limit_req_status", Role::Limited),
    ("response_flags", Role::Limited),
];

impl Role {
    /// The names that [`Role::named`] knows.
    pub(crate) const NAMED: &str = "start, end, duration, duration_s, duration_ms, duration_us, duration_ns, client, x_forwarded_for, forwarded, request, method, path, status and limited";

    /// All names that mean something, in the order in which they win.
    pub(crate) fn known() -> impl Iterator<Item = (&'static str, Role)> {
        NAMES.iter().copied()
    }

    /// The role that a user names: `time`, `client`, `path` and so on.
    pub(crate) fn named(name: &str) -> Option<Role> {
        Some(match name {
            "start" | "time" => Role::Start,
            "end" => Role::End,
            "duration" => Role::Duration(Unit::SecondsOrMillis),
            "duration_s" => Role::Duration(Unit::Seconds),
            "duration_ms" => Role::Duration(Unit::Millis),
            "duration_us" => Role::Duration(Unit::Micros),
            "duration_ns" => Role::Duration(Unit::Nanos),
            "client" => Role::Client,
            "x_forwarded_for" => Role::Forwarded,
            "forwarded" => Role::ForwardedStandard,
            "request" => Role::Request,
            "method" => Role::Method,
            "path" => Role::Path,
            "status" => Role::Status,
            "limited" => Role::Limited,
            _ => return None,
        })
    }

    /// Whether it is a time of the request.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, Role::Start | Role::End)
    }

    /// Whether two roles are the same but for the unit.
    pub(crate) fn is_like(self, other: Role) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl Unit {
    /// A duration in microseconds.
    pub(crate) fn micros(self, text: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(text).ok()?;
        let text = match self {
            Unit::LastMillis => text.rsplit('/').next()?,
            _ => text,
        };
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let per_unit = match self {
            Unit::Seconds => 1_000_000,
            Unit::SecondsOrMillis if text.contains('.') => 1_000_000,
            Unit::SecondsOrMillis | Unit::Millis | Unit::LastMillis => 1_000,
            Unit::Micros => 1,
            Unit::Nanos => return Some(whole.parse::<u64>().ok()? / 1_000),
        };
        let mut micros = whole.parse::<u64>().ok()?.checked_mul(per_unit)?;
        let mut worth = per_unit;
        for digit in decimals.bytes() {
            worth /= 10;
            let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
            micros = micros.checked_add(u64::from(digit) * worth)?;
        }
        Some(micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_become_microseconds() {
        for (unit, text, micros) in [
            (Unit::Seconds, "0.250", Some(250_000)),
            (Unit::Seconds, "2", Some(2_000_000)),
            (Unit::SecondsOrMillis, "0.000929675", Some(929)),
            (Unit::SecondsOrMillis, "12", Some(12_000)),
            (Unit::Nanos, "1500", Some(1)),
            (Unit::LastMillis, "10/0/30/69/109", Some(109_000)),
            (Unit::LastMillis, "-1/-1/-1/-1/-1", None),
            (Unit::Millis, "x", None),
            (Unit::Seconds, "1.x", None),
        ] {
            assert_eq!(unit.micros(text.as_bytes()), micros, "{unit:?} {text}");
        }
    }

    #[test]
    fn no_name_has_two_roles() {
        let mut names: Vec<_> = Role::known().map(|(name, _)| name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}

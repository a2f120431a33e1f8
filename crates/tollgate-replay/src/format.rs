//! The formats of logs: their names, how one is detected, and how a line becomes a [`Row`].

use crate::columns::Columns;
use crate::json::Json;
use crate::pattern::Pattern;
use crate::role::Role;
use crate::row::Row;

/// A text that several patterns have.
macro_rules! HAPROXY {
    () => {
        r#"$remote_addr [$accept_date] $frontend $backend $haproxy_timers $status $bytes_sent $_request_cookie $_response_cookie $termination_state $connections $_queues_and_headers "$request""#
    };
}

/// The format of a log.
///
/// ```
/// use tollgate_replay::Format;
///
/// assert!(Format::named("combined").is_some());
/// assert!(Format::pattern("$remote_addr [$time_local] \"$request\" $status").is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Format {
    name: String,
    syntax: Syntax,
}

#[derive(Clone, Debug)]
enum Syntax {
    Text(Pattern),
    Json(Json),
    Columns(Columns),
    /// CSV whose header is not read yet.
    Csv,
}

/// The fields that may stand before the formats of nginx and Apache: nothing, the host with a port,
/// the host.
const FRONTS: &[(&str, &str)] = &[("vhost-", "$host:$_port "), ("host-", "$host "), ("", "")];

const COMMON: &str =
    r#"$remote_addr $_ident $remote_user [$time_local] "$request" $status $body_bytes_sent"#;

/// The fields that may follow the common log.
const MIDDLES: &[(&str, &str)] = &[
    ("main", r#" "$http_referer" "$http_user_agent" "$http_x_forwarded_for""#),
    ("combined", r#" "$http_referer" "$http_user_agent""#),
    ("common", ""),
];

/// The fields that may stand at the end.
const ENDS: &[(&str, &str)] = &[
    ("-timed-msec", " $request_time $msec"),
    ("-msec-timed", " $msec $request_time"),
    ("-msec", " $msec"),
    ("-timed", " $request_time"),
    ("", ""),
];

/// Formats of other servers, and their patterns: the more specific of two that fit the same lines
/// comes first.
const OTHERS: &[(&str, &str)] = &[
    (
        "istio",
        r#"[$start_time] "$request" $status $response_flags $_details $_termination "$_failure" $bytes_received $bytes_sent $duration_ms $upstream_time "$http_x_forwarded_for" "$http_user_agent" "$request_id" "$host" "$upstream_host" $upstream_cluster $_upstream_local $_downstream_local $downstream_remote_address"#,
    ),
    (
        "envoy",
        r#"[$start_time] "$request" $status $response_flags $bytes_received $bytes_sent $duration_ms $upstream_time "$http_x_forwarded_for" "$http_user_agent" "$request_id" "$host" "$upstream_host""#,
    ),
    (
        "alb",
        r#"$type $_time $elb $remote_addr $target $_request_time $_target_time $_response_time $status $target_status $received_bytes $sent_bytes "$request" "$http_user_agent" $cipher $protocol $target_group "$trace_id" "$host" "$certificate" $priority $request_creation_time"#,
    ),
    ("haproxy-syslog", concat!("$_header]: ", HAPROXY!())),
    ("haproxy-rfc5424", concat!("<$_header - - ", HAPROXY!())),
    ("haproxy", HAPROXY!()),
];

impl Format {
    /// The format of that name: one of [`Format::names`].
    #[must_use]
    pub fn named(name: &str) -> Option<Format> {
        let syntax = match name {
            "json" => Syntax::Json(Json::default()),
            "csv" => Syntax::Csv,
            _ => {
                let (_, pattern) = texts().into_iter().find(|(known, _)| known == name)?;
                Syntax::Text(Pattern::new(&pattern).ok()?)
            }
        };
        Some(Format { name: name.to_owned(), syntax })
    }

    /// All names. Logs with a `#Fields:` line (CloudFront, IIS) need none.
    pub fn names() -> impl Iterator<Item = String> {
        let texts = texts().into_iter().map(|(name, _)| name);
        texts.chain(["json".to_owned(), "csv".to_owned()])
    }

    /// The [names](Format::names) for people: the 30 of nginx and Apache are put together.
    pub const SUMMARY: &str = "common, combined and main (combined with X-Forwarded-For), with -timed, -msec, -timed-msec or -msec-timed behind and vhost- or host- before; istio, envoy, alb, haproxy, haproxy-syslog, haproxy-rfc5424, json, csv";

    /// A format in the syntax of nginx's `log_format`.
    ///
    /// # Errors
    /// When the pattern has no fields, or two fields with nothing between them.
    pub fn pattern(text: &str) -> Result<Format, String> {
        let pattern = Pattern::new(text)?;
        Ok(Format { name: "custom".to_owned(), syntax: Syntax::Text(pattern) })
    }

    /// The format that most of these first lines of a log have, if any has.
    ///
    /// ```
    /// use tollgate_replay::Format;
    ///
    /// let line = br#"192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5"#;
    /// assert_eq!(Format::detect([&line[..]]).unwrap().name(), "common");
    /// ```
    #[must_use]
    pub fn detect<'l>(lines: impl IntoIterator<Item = &'l [u8]>) -> Option<Format> {
        let lines: Vec<_> = lines.into_iter().collect();
        Format::detect_with(&lines, &[])
    }

    /// The same, but the user names the fields of some roles.
    pub(crate) fn detect_with(lines: &[&[u8]], roles: &[(Role, String)]) -> Option<Format> {
        let texts = lines.iter().filter_map(|line| std::str::from_utf8(line).ok());
        if let Some(columns) = texts.clone().find_map(Columns::from_fields_line) {
            return Some(Format { name: "fields".to_owned(), syntax: Syntax::Columns(columns) });
        }
        // Of the formats that fit the most lines, the first one: it is the most specific.
        let mut best = (0, None);
        for name in Format::names() {
            let Some(format) = Format::named(&name) else { continue };
            let fit = format.fitting(lines, roles);
            if fit > best.0 {
                best = (fit, Some(format));
            }
        }
        best.1.or_else(|| {
            let header = texts.clone().find(|line| !line.trim().is_empty())?;
            let columns = Columns::from_header(header)?;
            let has_time = columns.names().any(|name| {
                let is_known = Role::known().any(|(known, role)| known == name && role.is_time());
                is_known || roles.iter().any(|(role, said)| said == name && role.is_time())
            });
            let csv = Format { name: "csv".to_owned(), syntax: Syntax::Columns(columns) };
            has_time.then_some(csv)
        })
    }

    /// The number of these lines that have this form, with values where they belong.
    fn fitting(&self, lines: &[&[u8]], roles: &[(Role, String)]) -> usize {
        let said = roles.iter().map(|(role, name)| (name.clone(), *role));
        let usual = Role::known().map(|(name, role)| (name.to_owned(), role));
        let (names, known): (Vec<String>, Vec<Role>) = said.chain(usual).unzip();
        let mut format = self.clone();
        format.assign(&names);
        // In lines of text, these values distinguish one format from another.
        let column = |name: &str| names.iter().position(|known| known == name);
        let has = |name: &&str| self.field_names().any(|known| known == *name);
        let telling = ["remote_addr", "request_time", "msec", "http_x_forwarded_for"];
        let telling: Vec<_> = telling
            .into_iter()
            .filter(has)
            .filter_map(|name| Some((name, column(name)?)))
            .collect();
        let is_envoy = has(&"start_time");
        let mut row = Row::default();
        let mut fits = |line: &[u8]| {
            row.clear(names.len());
            format.read(line, &mut row)
                && known.iter().enumerate().any(|(column, role)| {
                    let is_time = |value| crate::parse_time(value).is_some();
                    role.is_time() && row.get(column).is_some_and(is_time)
                })
                && telling.iter().all(|(name, column)| match (*name, row.get(*column)) {
                    ("remote_addr", value) => value.is_some(),
                    ("request_time", value) => value.is_some_and(is_decimal),
                    ("msec", value) => value.is_some_and(is_recent),
                    (_, value) => is_envoy || value.is_none_or(is_forwarded),
                })
        };
        lines.iter().filter(|line| fits(line)).count()
    }

    /// The name of the format.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its fields. Empty for JSON, whose lines have any.
    pub fn field_names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match &self.syntax {
            Syntax::Text(pattern) => Box::new(pattern.names()),
            Syntax::Columns(columns) => Box::new(columns.names()),
            Syntax::Json(_) | Syntax::Csv => Box::new(std::iter::empty()),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        matches!(self.syntax, Syntax::Json(_))
    }

    /// Whether the first line has the names of the fields.
    pub(crate) fn needs_header(&self) -> bool {
        matches!(self.syntax, Syntax::Csv)
    }

    /// The format whose first line is this header.
    pub(crate) fn with_header(&self, header: &[u8]) -> Result<Format, String> {
        let columns = std::str::from_utf8(header).ok().and_then(Columns::from_header);
        let columns = columns.ok_or_else(|| {
            let shown = String::from_utf8_lossy(header);
            format!("csv: the first line {shown:?} does not name columns, separated by comma, semicolon or tab")
        })?;
        Ok(Format { name: self.name.clone(), syntax: Syntax::Columns(columns) })
    }

    /// Sets which fields are wanted: the field of each name goes to the column of that index.
    pub(crate) fn assign(&mut self, wanted: &[String]) {
        let column = |name: &str| wanted.iter().position(|wanted| wanted == name);
        match &mut self.syntax {
            Syntax::Text(pattern) => pattern.assign(column),
            Syntax::Columns(columns) => columns.assign(column),
            Syntax::Json(json) => {
                json.assign(wanted.iter().cloned().enumerate().map(|(index, path)| (path, index)));
            }
            Syntax::Csv => {}
        }
    }

    /// Parses a line; false if it does not have this form.
    pub(crate) fn read(&self, line: &[u8], row: &mut Row) -> bool {
        match &self.syntax {
            Syntax::Text(pattern) => pattern.read(line, row),
            Syntax::Columns(columns) => columns.read(line, row),
            Syntax::Json(json) => json.read(line, row),
            Syntax::Csv => false,
        }
    }

    /// Whether a line is no request: a comment, or the header of a CSV file.
    pub(crate) fn is_header(&self, line: &[u8]) -> bool {
        match &self.syntax {
            Syntax::Columns(columns) => columns.is_header(line),
            _ => false,
        }
    }
}

/// The names and patterns of all text formats, the more specific ones first.
fn texts() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (front, front_pattern) in FRONTS {
        for (middle, middle_pattern) in MIDDLES {
            for (end, end_pattern) in ENDS {
                let name = format!("{front}{middle}{end}");
                all.push((name, format!("{front_pattern}{COMMON}{middle_pattern}{end_pattern}")));
            }
        }
    }
    // A longer end is more specific whatever stands before it.
    let rank = |name: &str| ENDS.iter().position(|(end, _)| !end.is_empty() && name.ends_with(end));
    all.sort_by_key(|(name, _)| rank(name).unwrap_or(ENDS.len()));
    all.extend(OTHERS.iter().map(|(name, pattern)| ((*name).to_owned(), (*pattern).to_owned())));
    all
}

/// Whether a value is `$request_time`. nginx writes three decimals; a whole number may be
/// microseconds of Apache.
fn is_decimal(value: &[u8]) -> bool {
    value.contains(&b'.') && value.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Whether a value is a list of addresses.
fn is_forwarded(list: &[u8]) -> bool {
    let is_address = |one: &[u8]| tollgate_http::address(one.trim_ascii()).is_some();
    list.split(|byte| *byte == b',').all(is_address)
}

/// Whether a value is `$msec`: seconds since the epoch, later than in 2001.
fn is_recent(value: &[u8]) -> bool {
    matches!(crate::parse_time(value), Some(stamp) if stamp.micros > 1_000_000_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as the servers write them.
    pub(crate) const LINES: &[(&str, &str)] = &[
        ("common", r#"192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512"#),
        (
            "combined",
            r#"192.0.2.1 - alice [10/Oct/2026:13:55:36 +0000] "GET /a?b=c HTTP/1.1" 200 512 "-" "curl/8.5.0""#,
        ),
        (
            "combined",
            r#"2001:db8::1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "a \"b\" c" "more""#,
        ),
        (
            "combined-timed",
            r#"192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "curl" 0.004"#,
        ),
        (
            "vhost-combined",
            r#"shop.example:443 192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "curl""#,
        ),
        (
            "envoy",
            r#"[2026-10-10T13:55:36.123Z] "GET / HTTP/1.1" 429 RL 0 18 1 - "192.0.2.1" "curl" "0f2b" "shop" "-""#,
        ),
        (
            "haproxy",
            r#"192.0.2.1:33317 [10/Oct/2026:13:55:36.655] in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {host} {} "GET / HTTP/1.1""#,
        ),
        (
            "haproxy-syslog",
            r#"Oct 10 13:55:36 lb haproxy[14389]: 192.0.2.1:33317 [10/Oct/2026:13:55:36.655] in b/s 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1""#,
        ),
        (
            "alb",
            r#"https 2026-10-10T13:55:37.000000Z app/lb/50d 192.0.2.1:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://shop:443/ HTTP/1.1" "curl" ECDHE TLSv1.2 arn:x "Root=1" "shop" "arn:y" 1 2026-10-10T13:55:36.000000Z "forward" "-" "-""#,
        ),
        (
            "json",
            r#"{"level":"info","ts":1791640536.25,"request":{"client_ip":"192.0.2.1","method":"GET","uri":"/"},"duration":0.001,"status":200}"#,
        ),
        (
            "json",
            r#"{"ClientHost":"192.0.2.1","StartUTC":"2026-10-10T13:55:36.25Z","Duration":1000,"RequestPath":"/","DownstreamStatus":200}"#,
        ),
        (
            "combined-msec-timed",
            r#"192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "curl" 1791640536.123 0.004"#,
        ),
        (
            "common-timed",
            r#"192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 0.004"#,
        ),
        (
            "combined",
            r#"192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "curl" 5123"#,
        ),
        (
            "main",
            r#"10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "curl" "192.0.2.1, 10.0.0.2""#,
        ),
        (
            "main-timed",
            r#"10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "curl" "192.0.2.1" 0.004"#,
        ),
        (
            "host-combined",
            r#"shop.example 192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "curl""#,
        ),
        (
            "vhost-common",
            r#"shop.example:80 192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512"#,
        ),
        (
            "combined",
            r#"192.0.2.1 - alice smith [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "curl""#,
        ),
        (
            "istio",
            r#"[2026-10-10T13:55:36.123Z] "GET / HTTP/1.1" 200 - via_upstream - "-" 0 18 1 0 "-" "curl" "0f2b" "shop" "10.0.0.9:80" outbound|80||shop 10.0.0.1:4000 10.0.0.2:80 192.0.2.1:5000 - default"#,
        ),
        (
            "haproxy-rfc5424",
            r#"<134>1 2026-10-10T13:55:36.655+00:00 - haproxy 7 - - 192.0.2.1:33317 [10/Oct/2026:13:55:36.655] in b/s 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1""#,
        ),
        ("csv", "time,client_ip,path"),
        ("fields", "#Fields: date time x-edge-location sc-bytes c-ip"),
    ];

    #[test]
    fn formats_are_detected() {
        for (name, line) in LINES {
            let detected = Format::detect([line.as_bytes()]);
            assert_eq!(detected.map(|format| format.name).as_deref(), Some(*name), "{line}");
        }
        for line in ["", "hello", "{}", "a b c [d] \"e\" f g", "a,b,c"] {
            assert!(Format::detect([line.as_bytes()]).is_none(), "{line}");
        }
    }

    #[test]
    fn a_few_bad_lines_do_not_change_the_format() {
        let (_, good) = LINES[1];
        let lines = ["nonsense", good, "more nonsense", good];
        let detected = Format::detect(lines.map(str::as_bytes)).unwrap();
        assert_eq!(detected.name(), "combined");
    }

    #[test]
    fn every_name_is_a_format() {
        for name in Format::names() {
            assert_eq!(Format::named(&name).unwrap().name(), name);
        }
        assert!(Format::named("nonsense").is_none());
    }
}

//! The formats of logs: their names, how one is detected, and how a line becomes a [`Row`].

use crate::columns::Columns;
use crate::json::Json;
use crate::pattern::Pattern;
use crate::role::Role;
use crate::row::Row;

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
}

const COMMON: &str =
    r#"$remote_addr $_ident $remote_user [$time_local] "$request" $status $body_bytes_sent"#;
const COMBINED: &str = r#"$remote_addr $_ident $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#;

/// Names of text formats, what they are, and their patterns: the more specific of two that fit the
/// same lines comes first.
const TEXTS: &[(&str, &str, &str)] = &[
    (
        "vhost-combined",
        "combined with the host and port in front (Apache)",
        r#"$host:$_port $remote_addr $_ident $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
    ),
    (
        "combined-timed",
        "combined and $request_time in seconds at the end (nginx)",
        r#"$remote_addr $_ident $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time"#,
    ),
    ("combined", "nginx and Apache", COMBINED),
    ("common", "combined without referer and agent", COMMON),
    (
        "envoy",
        "Envoy's default",
        r#"[$start_time] "$request" $status $response_flags $bytes_received $bytes_sent $duration_ms $upstream_time "$http_x_forwarded_for" "$http_user_agent" "$request_id" "$host" "$upstream_host""#,
    ),
    (
        "alb",
        "AWS application load balancer",
        r#"$type $_time $elb $remote_addr $target $_request_time $_target_time $_response_time $status $target_status $received_bytes $sent_bytes "$request" "$http_user_agent" $cipher $protocol $target_group "$trace_id" "$host" "$certificate" $priority $request_creation_time"#,
    ),
    (
        "haproxy-syslog",
        "HAProxy's HTTP log with a syslog header",
        r#"$_header]: $remote_addr [$accept_date] $frontend $backend $haproxy_timers $status $bytes_sent $_request_cookie $_response_cookie $termination_state $connections $_queues_and_headers "$request""#,
    ),
    (
        "haproxy",
        "HAProxy's HTTP log",
        r#"$remote_addr [$accept_date] $frontend $backend $haproxy_timers $status $bytes_sent $_request_cookie $_response_cookie $termination_state $connections $_queues_and_headers "$request""#,
    ),
];

impl Format {
    /// The format of that name: one of [`Format::names`].
    #[must_use]
    pub fn named(name: &str) -> Option<Format> {
        if name == "json" {
            return Some(Format::json());
        }
        let (name, _, pattern) = TEXTS.iter().find(|(known, _, _)| *known == name)?;
        let pattern = Pattern::new(pattern).ok()?;
        Some(Format { name: (*name).to_owned(), syntax: Syntax::Text(pattern) })
    }

    /// All names with a description. CSV and CloudFront logs need none: their first lines name
    /// their columns.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        let texts = TEXTS.iter().map(|(name, description, _)| (*name, *description));
        texts.chain([("json", "an object a line: Caddy, Traefik, Envoy, nginx, ...")])
    }

    /// A format in the syntax of nginx's `log_format`.
    ///
    /// # Errors
    /// When the pattern has no fields, or two fields with nothing between them.
    pub fn pattern(text: &str) -> Result<Format, String> {
        let pattern = Pattern::new(text)?;
        Ok(Format { name: "custom".to_owned(), syntax: Syntax::Text(pattern) })
    }

    fn json() -> Format {
        Format { name: "json".to_owned(), syntax: Syntax::Json(Json::default()) }
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
        let lines: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        let headers = lines.iter().filter_map(|line| std::str::from_utf8(line).ok());
        let declared = headers.clone().find_map(Columns::from_fields_line);
        if let Some(columns) = declared {
            return Some(Format { name: "fields".to_owned(), syntax: Syntax::Columns(columns) });
        }
        let known = TEXTS.iter().filter_map(|(name, ..)| Format::named(name));
        // `max_by_key` takes the last of equals, and the more specific formats come first.
        let all: Vec<_> = known.chain([Format::json()]).collect();
        let fitting = |format: &Format| lines.iter().filter(|line| format.fits(line)).count();
        let best = all.into_iter().rev().max_by_key(fitting).filter(|format| fitting(format) > 0);
        best.or_else(|| {
            let columns = Columns::from_header(headers.clone().next()?)?;
            let knows_time = columns.names().any(|name| {
                Role::known().any(|(known, role)| {
                    known == name && (role.is_like(Role::Start) || role.is_like(Role::End))
                })
            });
            let csv = Format { name: "csv".to_owned(), syntax: Syntax::Columns(columns) };
            knows_time.then_some(csv)
        })
    }

    /// Whether a line has this form, with a time where one belongs.
    fn fits(&self, line: &[u8]) -> bool {
        let mut format = self.clone();
        let names: Vec<String> = match &self.syntax {
            Syntax::Json(_) => Role::known().map(|(name, _)| name.to_owned()).collect(),
            _ => self.field_names().map(str::to_owned).collect(),
        };
        format.assign(&names);
        let mut row = Row::default();
        row.clear(names.len());
        format.read(line, &mut row)
            && Role::known().any(|(known, role)| {
                let is_time = matches!(role, Role::Start | Role::End);
                let column = names.iter().position(|name| name == known);
                let value = column.filter(|_| is_time).and_then(|column| row.get(column));
                value.is_some_and(|value| crate::parse_time(value).is_some())
            })
            && (self.is_json() || has_duration(&names, &row))
    }

    /// What the format is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its fields. Empty for JSON, whose lines have any.
    pub fn field_names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match &self.syntax {
            Syntax::Text(pattern) => Box::new(pattern.names()),
            Syntax::Columns(columns) => Box::new(columns.names()),
            Syntax::Json(_) => Box::new(std::iter::empty()),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        matches!(self.syntax, Syntax::Json(_))
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
        }
    }

    /// Parses a line; false if it does not have this form.
    pub(crate) fn read(&self, line: &[u8], row: &mut Row) -> bool {
        match &self.syntax {
            Syntax::Text(pattern) => pattern.read(line, row),
            Syntax::Columns(columns) => columns.read(line, row),
            Syntax::Json(json) => json.read(line, row),
        }
    }

    /// Whether a line is no request: a comment, or the header of a CSV file.
    pub(crate) fn is_header(&self, line: &[u8]) -> bool {
        match &self.syntax {
            Syntax::Columns(columns) => {
                line.starts_with(b"#")
                    || columns.names().next().is_some_and(|first| {
                        line.starts_with(first.as_bytes())
                            || line
                                .strip_prefix(b"\"")
                                .is_some_and(|line| line.starts_with(first.as_bytes()))
                    })
            }
            _ => false,
        }
    }
}

/// Whether the field `request_time`, if the format has one, is a number: this tells
/// `combined-timed` from a combined log with something else at the end.
fn has_duration(names: &[String], row: &Row) -> bool {
    let Some(column) = names.iter().position(|name| name == "request_time") else { return true };
    let is_number = |value: &[u8]| value.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    row.get(column).is_some_and(is_number)
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
        for (name, _) in Format::names() {
            assert_eq!(Format::named(name).unwrap().name(), name);
        }
        assert!(Format::named("nonsense").is_none());
    }
}

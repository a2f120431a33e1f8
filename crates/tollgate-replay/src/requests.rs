//! Turns the lines of a log into requests: the start, the key and the cost of each.

use std::fmt;
use std::io;

use tollgate_http::ClientIp;

use crate::filter::Filter;
use crate::format::Format;
use crate::input::{Lines, Next};
use crate::key::{KeyPart, PathTemplates, client};
use crate::role::{Role, Unit};
use crate::row::Row;
use crate::time::parse_time;

/// How lines become requests.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The parts of a key. Default: the address of the client.
    pub key: Vec<KeyPart>,
    /// How the address of the client is found.
    pub client: ClientIp,
    /// Names for paths in keys.
    pub templates: PathTemplates,
    /// The field that holds the cost; one unit without it.
    pub cost: Option<String>,
    /// Requests that are replayed: those that all of these accept.
    pub filters: Vec<Filter>,
    /// Fields that have another name than usual: `("client", "real_ip")`.
    pub fields: Vec<(Role, String)>,
    /// Leaves out requests that were refused: status 429, or marked as limited.
    pub without_limited: bool,
}

impl Default for Reading {
    fn default() -> Self {
        Reading {
            key: vec![KeyPart::Ip],
            client: ClientIp::peer(),
            templates: PathTemplates::default(),
            cost: None,
            filters: Vec::new(),
            fields: Vec::new(),
            without_limited: false,
        }
    }
}

impl Reading {
    /// Sets the field that has the meaning of a role: `client=real_ip`.
    ///
    /// # Errors
    /// When there is no such role.
    pub fn field(&mut self, text: &str) -> Result<(), String> {
        let (role, name) = text.split_once('=').unwrap_or((text, ""));
        let role = Role::named(role).filter(|_| !name.is_empty()).ok_or_else(|| {
            format!(
                "field {text:?}: write ROLE=NAME, where ROLE is start, end, duration, duration_s, duration_ms, duration_us, duration_ns, client, forwarded, request, method, path, status or limited"
            )
        })?;
        self.fields.push((role, name.to_owned()));
        Ok(())
    }
}

/// One request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) at: u64,
    pub(crate) whole_second: bool,
    pub(crate) cost: u64,
}

/// Counts of the lines that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// All lines but headers and empty ones.
    pub lines: u64,
    /// Lines that do not have the format or have no time.
    pub unreadable: u64,
    /// The first unreadable lines: file, line number and the start of the line.
    pub examples: Vec<String>,
    /// Requests that a filter left out.
    pub filtered: u64,
    /// Requests that were refused when the log was written, with 429 or a mark. They are replayed
    /// unless the reading leaves them out.
    pub limited: u64,
    /// Requests without a key; they share one.
    pub without_key: u64,
}

const EXAMPLES: usize = 5;
const SHOWN: usize = 120;

impl LineCounts {
    fn unreadable(&mut self, lines: &Lines, line: &[u8]) {
        self.unreadable += 1;
        if self.examples.len() < EXAMPLES {
            let start = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
            let example = format!("{}:{}: {start:?}", lines.name(), lines.number());
            self.examples.push(example);
        }
    }

    /// The sum of both.
    pub(crate) fn add(&mut self, other: LineCounts) {
        self.lines += other.lines;
        self.unreadable += other.unreadable;
        self.filtered += other.filtered;
        self.limited += other.limited;
        self.without_key += other.without_key;
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES);
    }
}

/// The columns of a role, the best name first.
type Columns = Vec<usize>;

/// Reads the requests of one log.
pub(crate) struct Requests {
    lines: Lines,
    format: Format,
    reading: Reading,
    row: Row,
    line: Vec<u8>,
    /// The first lines, which were read to detect the format.
    first: std::vec::IntoIter<Vec<u8>>,
    columns: usize,
    start: Columns,
    end: Columns,
    duration: Vec<(usize, Unit)>,
    client: Columns,
    forwarded: Columns,
    request: Columns,
    method: Columns,
    path: Columns,
    status: Columns,
    limited: Columns,
    cost: Option<usize>,
    /// The columns of the key's own fields, in the order of its parts.
    key_fields: Vec<Option<usize>>,
    filter_columns: Vec<Option<usize>>,
    counts: LineCounts,
    /// The text of the last time that was read, and its value: neighbours often share it.
    last_time: (Vec<u8>, Option<crate::Stamp>),
}

/// The number of lines that are examined to detect a format.
const SAMPLE: usize = 100;

impl Requests {
    /// Starts to read. Without a format it is detected.
    pub(crate) fn new(
        mut lines: Lines,
        format: Option<Format>,
        reading: Reading,
    ) -> Result<Requests, String> {
        let mut first = Vec::new();
        let format = match format {
            Some(format) => format,
            None => {
                let mut line = Vec::new();
                while first.len() < SAMPLE {
                    let next = lines.read(&mut line);
                    match next.map_err(|error| format!("{}: {error}", lines.name()))? {
                        Next::End => break,
                        Next::TooLong => {}
                        Next::Line => first.push(line.clone()),
                    }
                }
                lines.restart_numbers();
                let detected = Format::detect(first.iter().map(|line| &line[..]));
                detected.ok_or_else(|| {
                    let names: Vec<_> = Format::names().map(|(name, _)| name).collect();
                    format!(
                        "{}: no known format fits its first lines; name it: {}, or a pattern such as '$remote_addr [$time_local] \"$request\" $status'",
                        lines.name(),
                        names.join(", ")
                    )
                })?
            }
        };
        Requests::with(lines, format, reading, first)
    }

    fn with(
        lines: Lines,
        mut format: Format,
        reading: Reading,
        first: Vec<Vec<u8>>,
    ) -> Result<Requests, String> {
        let mut names: Vec<String> = Vec::new();
        let has = |name: &str| format.is_json() || format.field_names().any(|known| known == name);
        let mut column = |name: &str| -> Option<usize> {
            if !has(name) {
                return None;
            }
            Some(names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            }))
        };
        for (_, name) in &reading.fields {
            if column(name).is_none() {
                return Err(format!("field {name:?}: the format {} has none", format.name()));
            }
        }
        let mut roles: Vec<(Role, usize)> = Vec::new();
        for (role, name) in &reading.fields {
            roles.extend(column(name).map(|column| (*role, column)));
        }
        for (name, role) in Role::known() {
            // The user has set a field for this role, so the usual names do not apply.
            if !reading.fields.iter().any(|(said, _)| said.is_like(role)) {
                roles.extend(column(name).map(|column| (role, column)));
            }
        }
        let wanted = |what: &str, name: &str, column: Option<usize>| {
            column.ok_or_else(|| {
                format!("{what}: the format {} has no field {name:?}", format.name())
            })
        };
        let cost = match &reading.cost {
            Some(name) => Some(wanted("cost", name, column(name))?),
            None => None,
        };
        let mut key_fields = Vec::new();
        for part in &reading.key {
            key_fields.push(match part {
                KeyPart::Field(name) => Some(wanted("key", name, column(name))?),
                _ => None,
            });
        }
        let mut filter_columns = Vec::new();
        for filter in &reading.filters {
            let name = filter.field();
            filter_columns.push(match Role::named(name) {
                Some(_) => None,
                None => Some(wanted("filter", name, column(name))?),
            });
        }
        let of = |wanted: Role| -> Columns {
            let mine = roles.iter().filter(|(role, _)| role.is_like(wanted));
            mine.map(|(_, column)| *column).collect()
        };
        let duration = roles.iter().filter_map(|(role, column)| match role {
            Role::Duration(unit) => Some((*column, *unit)),
            _ => None,
        });
        let (start, end) = (of(Role::Start), of(Role::End));
        if start.is_empty() && end.is_empty() {
            return Err(format!(
                "the format {} has no time; say which field it is: --field start=NAME, or end=NAME if it is written after the response",
                format.name()
            ));
        }
        let requests = Requests {
            row: Row::default(),
            line: Vec::new(),
            first: first.into_iter(),
            columns: names.len(),
            duration: duration.collect(),
            client: of(Role::Client),
            forwarded: of(Role::Forwarded),
            request: of(Role::Request),
            method: of(Role::Method),
            path: of(Role::Path),
            status: of(Role::Status),
            limited: of(Role::Limited),
            start,
            end,
            cost,
            key_fields,
            filter_columns,
            counts: LineCounts::default(),
            last_time: (Vec::new(), None),
            lines,
            format: {
                format.assign(&names);
                format
            },
            reading,
        };
        Ok(requests)
    }

    pub(crate) fn format(&self) -> &Format {
        &self.format
    }

    pub(crate) fn into_counts(self) -> LineCounts {
        self.counts
    }

    /// The next request, with its key in `key`; `None` at the end of the log.
    pub(crate) fn next(&mut self, key: &mut String) -> Result<Option<Request>, String> {
        loop {
            let next = match self.first.next() {
                Some(line) => {
                    self.line = line;
                    self.lines.count_line();
                    Next::Line
                }
                None => self.lines.read(&mut self.line).map_err(|error: io::Error| {
                    format!("{}:{}: {error}", self.lines.name(), self.lines.number())
                })?,
            };
            match next {
                Next::End => return Ok(None),
                Next::TooLong => {
                    self.counts.lines += 1;
                    self.counts.unreadable(&self.lines, b"(longer than a mebibyte)");
                }
                Next::Line if self.line.is_empty() || self.format.is_header(&self.line) => {}
                Next::Line => {
                    self.counts.lines += 1;
                    self.row.clear(self.columns);
                    let at = match self.format.read(&self.line, &mut self.row) {
                        true => self.began(),
                        false => None,
                    };
                    let Some((at, whole_second)) = at else {
                        self.counts.unreadable(&self.lines, &self.line);
                        continue;
                    };
                    if let Some(cost) = self.accepted() {
                        self.write_key(key);
                        return Ok(Some(Request { at, whole_second, cost }));
                    }
                }
            }
        }
    }

    fn value(&self, columns: &Columns) -> Option<&[u8]> {
        columns.iter().find_map(|column| self.row.get(*column))
    }

    /// When the request began, in microseconds.
    fn began(&mut self) -> Option<(u64, bool)> {
        let start = self.value(&self.start);
        let is_end = start.is_none();
        let text = start.or_else(|| self.value(&self.end))?;
        let stamp = if self.last_time.0 == text {
            self.last_time.1
        } else {
            let stamp = parse_time(text);
            self.last_time = (text.to_vec(), stamp);
            stamp
        }?;
        let duration = self
            .duration
            .iter()
            .find_map(|(column, unit)| unit.micros(self.row.get(*column)?))
            .filter(|_| is_end);
        Some((stamp.micros.saturating_sub(duration.unwrap_or(0)), stamp.whole_second))
    }

    /// The cost of the request, unless it is left out.
    fn accepted(&mut self) -> Option<u64> {
        let is_limited = self.value(&self.status) == Some(b"429")
            || self.value(&self.limited).is_some_and(is_limited_mark);
        if is_limited {
            self.counts.limited += 1;
            if self.reading.without_limited {
                return None;
            }
        }
        let filters = self.reading.filters.iter().zip(&self.filter_columns);
        let passes = filters.into_iter().all(|(filter, column)| {
            let value = match column {
                Some(column) => self.row.get(*column),
                None => self.role_value(filter.field()),
            };
            filter.accepts(value.unwrap_or_default())
        });
        if !passes {
            self.counts.filtered += 1;
            return None;
        }
        let Some(column) = self.cost else { return Some(1) };
        let number = std::str::from_utf8(self.row.get(column).unwrap_or(b"0")).ok();
        Some(number.and_then(|number| number.parse().ok()).unwrap_or(1))
    }

    /// The value of a role that a filter names.
    fn role_value(&self, name: &str) -> Option<&[u8]> {
        match name {
            "method" => self.method(),
            "path" => self.path(),
            "status" => self.value(&self.status),
            "client" => self.value(&self.client),
            "forwarded" => self.value(&self.forwarded),
            "request" => self.value(&self.request),
            "limited" => self.value(&self.limited),
            _ => None,
        }
    }

    fn method(&self) -> Option<&[u8]> {
        self.value(&self.method).or_else(|| self.value(&self.request)?.split(|b| *b == b' ').next())
    }

    /// The path without its query.
    fn path(&self) -> Option<&[u8]> {
        let target = match self.value(&self.path) {
            Some(path) => path,
            None => self.value(&self.request)?.split(|byte| *byte == b' ').nth(1)?,
        };
        let path = target.split(|byte| *byte == b'?').next()?;
        // A load balancer logs the whole URL.
        match memchr::memmem::find(path, b"://") {
            Some(scheme) => {
                let rest = &path[scheme + 3..];
                Some(memchr::memchr(b'/', rest).map_or(&b"/"[..], |slash| &rest[slash..]))
            }
            None => Some(path),
        }
    }

    /// Writes the key; parts are separated by a blank, and a missing part is `-`.
    fn write_key(&mut self, key: &mut String) {
        use fmt::Write as _;
        key.clear();
        let mut found_any = false;
        for (part, column) in self.reading.key.iter().zip(&self.key_fields) {
            if !key.is_empty() {
                key.push(' ');
            }
            let before = key.len();
            match part {
                KeyPart::Ip => {
                    let reads_forwarded = !self.forwarded.is_empty();
                    let peer = self.value(&self.client);
                    let forwarded = self.value(&self.forwarded);
                    let rules = &self.reading.client;
                    if let Some(address) = client(rules, reads_forwarded, peer, forwarded) {
                        let _ = write!(key, "{address}");
                    }
                }
                KeyPart::Path => {
                    let path = String::from_utf8_lossy(self.path().unwrap_or_default());
                    key.push_str(self.reading.templates.name(&path));
                }
                KeyPart::Method => {
                    key.push_str(&String::from_utf8_lossy(self.method().unwrap_or_default()));
                }
                KeyPart::Field(_) => {
                    let value = column.and_then(|column| self.row.get(column));
                    key.push_str(&String::from_utf8_lossy(value.unwrap_or_default()));
                }
            }
            found_any |= key.len() > before;
            if key.len() == before {
                key.push('-');
            }
        }
        self.counts.without_key += u64::from(!found_any);
    }
}

/// Marks of limited requests: nginx' `$limit_req_status`, and among Envoy's response flags.
fn is_limited_mark(mark: &[u8]) -> bool {
    mark == b"REJECTED" || mark.split(|byte| *byte == b',').any(|flag| flag == b"RL")
}

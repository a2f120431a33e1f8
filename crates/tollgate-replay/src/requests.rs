//! Turns the lines of a log into requests: the start, the key and the cost of each.

use std::fmt::Write as _;
use std::io;

use crate::counts::LineCounts;
use crate::fields::{Columns, Fields};
use crate::format::Format;
use crate::input::{Lines, Next};
use crate::key::{KeyPart, client};
use crate::keys::Keys;
use crate::reading::Reading;
use crate::row::Row;
use crate::time::{Stamp, parse_time};

/// One request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// When it began, in microseconds since the epoch.
    pub(crate) at: u64,
    /// The stamp of the line, if it is a whole second.
    pub(crate) whole_second: Option<u64>,
    pub(crate) key: u32,
    pub(crate) cost: u64,
    pub(crate) line: u64,
}

/// Reads the requests of one log.
pub(crate) struct Requests {
    lines: Lines,
    format: Format,
    reading: Reading,
    fields: Fields,
    row: Row,
    line: Vec<u8>,
    /// The first lines, which were read to detect the format.
    first: std::vec::IntoIter<Vec<u8>>,
    counts: LineCounts,
    key: String,
    /// The text of the last time that was read, and its value: neighbours often share it.
    last_time: (Vec<u8>, Option<Stamp>),
    /// The last time that was read, to distinguish the two hours when clocks are set back.
    last_stamp: u64,
}

/// The number of lines that are examined to detect a format.
const SAMPLE: usize = 100;

impl Requests {
    /// Begins to read. Without a format it is detected. `None` for a log without lines.
    pub(crate) fn new(
        mut lines: Lines,
        format: Option<Format>,
        reading: &Reading,
    ) -> Result<Option<Requests>, String> {
        let sample =
            if format.as_ref().is_some_and(|format| !format.needs_header()) { 1 } else { SAMPLE };
        let first = first_lines(&mut lines, sample)?;
        let texts: Vec<&[u8]> = first.iter().map(|line| &line[..]).collect();
        let Some(any) = texts.iter().find(|line| !line.is_empty()) else { return Ok(None) };
        let format = match format {
            Some(format) if format.needs_header() => format.with_header(any)?,
            Some(format) => format,
            None => Format::detect_with(&texts, &reading.fields).ok_or_else(|| {
                format!(
                    "{}: no known format fits its first lines, such as {:?}; name it with --format: {}; or write it as a pattern such as '$remote_addr [$time_local] \"$request\" $status'",
                    lines.name(),
                    String::from_utf8_lossy(&any[..any.len().min(120)]),
                    Format::SUMMARY,
                )
            })?,
        };
        let fields = Fields::resolve(&format, reading)?;
        let mut format = format;
        format.assign(&fields.names);
        Ok(Some(Requests {
            lines,
            format,
            reading: reading.clone(),
            fields,
            row: Row::default(),
            line: Vec::new(),
            first: first.into_iter(),
            counts: LineCounts::default(),
            key: String::new(),
            last_time: (Vec::new(), None),
            last_stamp: 0,
        }))
    }

    pub(crate) fn format(&self) -> &Format {
        &self.format
    }

    pub(crate) fn name(&self) -> &str {
        self.lines.name()
    }

    pub(crate) fn into_counts(self) -> LineCounts {
        self.counts
    }

    /// The next request; `None` at the end of the log.
    pub(crate) fn next(&mut self, keys: &mut Keys) -> Result<Option<Request>, String> {
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
                    self.unreadable(b"(longer than a mebibyte)");
                }
                Next::Line if self.line.is_empty() || self.format.is_header(&self.line) => {}
                Next::Line => {
                    if let Some(request) = self.request(keys) {
                        return Ok(Some(request));
                    }
                }
            }
        }
    }

    fn unreadable(&mut self, line: &[u8]) {
        self.counts.unreadable(self.lines.name(), self.lines.number(), line);
    }

    /// The request of a line, unless it cannot be read or is left out.
    fn request(&mut self, keys: &mut Keys) -> Option<Request> {
        self.counts.lines += 1;
        self.row.clear(self.fields.names.len());
        let is_read = self.format.read(&self.line, &mut self.row);
        let Some((at, whole_second)) = is_read.then(|| self.began()).flatten() else {
            let line = std::mem::take(&mut self.line);
            self.unreadable(&line);
            self.line = line;
            return None;
        };
        if !self.is_wanted(at) {
            return None;
        }
        let cost = self.cost();
        self.write_key();
        let key = keys.number(&self.key)?;
        Some(Request { at, whole_second, key, cost, line: self.lines.number() })
    }

    fn value(&self, columns: &Columns) -> Option<&[u8]> {
        columns.iter().find_map(|column| self.row.get(*column))
    }

    /// When the request began, in microseconds, and the stamp if it is a whole second.
    fn began(&mut self) -> Option<(u64, Option<u64>)> {
        let start = self.fields.start.iter().find_map(|column| self.row.get(*column));
        let is_end = start.is_none();
        let end = || self.fields.end.iter().find_map(|column| self.row.get(*column));
        let text = start.or_else(end)?;
        let stamp = if self.last_time.0 == text {
            self.last_time.1
        } else {
            let mut stamp = parse_time(text);
            if let Some(stamp) = &mut stamp
                && stamp.is_local
            {
                stamp.micros = self.reading.zone.instant(stamp.micros, self.last_stamp)?;
            }
            self.last_time.0.clear();
            self.last_time.0.extend_from_slice(text);
            self.last_time.1 = stamp;
            stamp
        }?;
        self.last_stamp = stamp.micros;
        let whole_second = stamp.whole_second.then_some(stamp.micros);
        if !is_end {
            return Some((stamp.micros, whole_second));
        }
        let durations = self.fields.duration.iter();
        let duration =
            durations.filter_map(|(column, unit)| unit.micros(self.row.get(*column)?)).next();
        Some((stamp.micros.saturating_sub(duration.unwrap_or(0)), whole_second))
    }

    /// Whether the request is replayed: no filter leaves it out.
    fn is_wanted(&mut self, at: u64) -> bool {
        let is_limited = self.value(&self.fields.status) == Some(b"429")
            || self.value(&self.fields.limited).is_some_and(is_limited_mark);
        if is_limited {
            self.counts.limited += 1;
            if self.reading.without_limited {
                return false;
            }
        }
        let is_in_time = self.reading.since.is_none_or(|since| at >= since)
            && self.reading.until.is_none_or(|until| at < until);
        let mut filters = self.reading.filters.iter().zip(&self.fields.filters);
        let passes = is_in_time
            && filters.all(|(filter, columns)| {
                let value = match columns.is_empty() {
                    true => self.role_value(filter.field()),
                    false => self.value(columns),
                };
                filter.accepts(value.unwrap_or_default())
            });
        self.counts.filtered += u64::from(!passes);
        passes
    }

    fn cost(&mut self) -> u64 {
        let Some(column) = self.fields.cost else { return 1 };
        let cost = self.row.get(column).and_then(whole_units);
        self.counts.without_cost += u64::from(cost.is_none());
        cost.unwrap_or(1)
    }

    /// The value of a role that a filter names.
    fn role_value(&self, name: &str) -> Option<&[u8]> {
        match name {
            "method" => self.method(),
            "path" => self.path(),
            "status" => self.value(&self.fields.status),
            "client" => self.value(&self.fields.client),
            "x_forwarded_for" | "forwarded" => self.value(&self.fields.forwarded),
            "request" => self.value(&self.fields.request),
            "limited" => self.value(&self.fields.limited),
            _ => None,
        }
    }

    fn method(&self) -> Option<&[u8]> {
        let request = || self.value(&self.fields.request)?.split(|b| *b == b' ').next();
        self.value(&self.fields.method).or_else(request)
    }

    /// The path without its query.
    fn path(&self) -> Option<&[u8]> {
        let target = match self.value(&self.fields.path) {
            Some(path) => path,
            None => self.value(&self.fields.request)?.split(|byte| *byte == b' ').nth(1)?,
        };
        let path = target.split(|byte| *byte == b'?').next()?;
        // A load balancer logs the whole URL.
        match memchr::memmem::find(path, b"://") {
            Some(scheme) if !path.starts_with(b"/") => {
                let rest = &path[scheme + 3..];
                Some(memchr::memchr(b'/', rest).map_or(&b"/"[..], |slash| &rest[slash..]))
            }
            _ => Some(path),
        }
    }

    /// Writes the key; parts are separated by a blank, and a missing part is `-`.
    fn write_key(&mut self) {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        let mut found_any = false;
        for (part, columns) in self.reading.key.iter().zip(&self.fields.key) {
            if !key.is_empty() {
                key.push(' ');
            }
            let before = key.len();
            match part {
                KeyPart::Ip => {
                    let peer = self.value(&self.fields.client);
                    let forwarded = self.value(&self.fields.forwarded);
                    if let Some(address) = client(&self.reading.client, peer, forwarded) {
                        let _ = write!(key, "{address}");
                    }
                }
                KeyPart::Path => {
                    let path = String::from_utf8_lossy(self.path().unwrap_or_default());
                    if !path.is_empty() {
                        self.reading.templates.write(&path, &mut key);
                    }
                }
                KeyPart::Method => {
                    key.push_str(&String::from_utf8_lossy(self.method().unwrap_or_default()));
                }
                KeyPart::User | KeyPart::Header(_) | KeyPart::Field(_) => {
                    let value = self.value(columns).unwrap_or_default();
                    key.push_str(&String::from_utf8_lossy(value));
                }
            }
            found_any |= key.len() > before;
            if key.len() == before {
                key.push('-');
            }
        }
        self.counts.without_key += u64::from(!found_any);
        self.key = key;
    }
}

fn first_lines(lines: &mut Lines, count: usize) -> Result<Vec<Vec<u8>>, String> {
    let (mut first, mut line) = (Vec::new(), Vec::new());
    while first.len() < count {
        match lines.read(&mut line).map_err(|error| format!("{}: {error}", lines.name()))? {
            Next::End => break,
            // Counted as unreadable, because an empty line has no format.
            Next::TooLong => first.push(b"(longer than a mebibyte)".to_vec()),
            Next::Line => first.push(line.clone()),
        }
    }
    lines.restart_numbers();
    Ok(first)
}

/// A number of units. Parts of a unit count as a whole one.
fn whole_units(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let rest = decimals.bytes().any(|byte| byte != b'0');
    whole.parse::<u64>().ok()?.checked_add(u64::from(rest))
}

/// Marks of limited requests: nginx' `$limit_req_status`, and among Envoy's response flags.
fn is_limited_mark(mark: &[u8]) -> bool {
    mark == b"REJECTED" || mark.split(|byte| *byte == b',').any(|flag| flag == b"RL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_unit_cost_a_whole_one() {
        for (text, units) in [
            ("12", Some(12)),
            ("12.0", Some(12)),
            ("12.5", Some(13)),
            ("0.001", Some(1)),
            ("x", None),
            ("1.x", None),
            ("-1", None),
        ] {
            assert_eq!(whole_units(text.as_bytes()), units, "{text}");
        }
    }
}

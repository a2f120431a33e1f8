//! Parses the addresses that proxies have written, from the right: the nearest proxy wrote the last
//! one.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A hop of a request, as a header describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    Address(IpAddr),
    /// An entry that is not an address: `unknown`, an obfuscated name, invalid text.
    Unknown,
}

/// The entries of `X-Forwarded-For`, all lines, from the last to the first.
pub(crate) fn x_forwarded_for<'h>(lines: &[&'h [u8]]) -> Vec<Hop> {
    let entries = lines.iter().rev().flat_map(|line: &&'h [u8]| line.rsplit(|byte| *byte == b','));
    entries.map(|entry| address(trim(entry)).map_or(Hop::Unknown, Hop::Address)).collect()
}

/// The `for` of each element of `Forwarded` (RFC 7239), all lines, from the last to the first. An
/// element without one is unknown.
pub(crate) fn forwarded(lines: &[&[u8]]) -> Vec<Hop> {
    let mut hops: Vec<Hop> = Vec::new();
    for line in lines.iter().rev() {
        for element in elements_from_the_right(line) {
            let mut hop = Hop::Unknown;
            for pair in split_unquoted(element, b';') {
                let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { continue };
                let (name, value) = (trim(&pair[..equals]), trim(&pair[equals + 1..]));
                if name.eq_ignore_ascii_case(b"for") {
                    hop = address(&unquoted(value)).map_or(Hop::Unknown, Hop::Address);
                }
            }
            hops.push(hop);
        }
    }
    hops
}

/// An address, alone or with a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`. An IPv4 address that is written as IPv6 becomes the IPv4 address.
///
/// ```
/// assert_eq!(tollgate_http::address(b"192.0.2.1:80"), "192.0.2.1".parse().ok());
/// ```
#[must_use]
pub fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bracketed = || {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
    };
    let plain = || text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    plain().or_else(bracketed).or_else(with_port).map(|address| address.to_canonical())
}

pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

/// The elements of a line, the last one first. Quotes are matched from the right as well: a client
/// that opens one and does not close it must not swallow what a proxy writes after it.
fn elements_from_the_right(line: &[u8]) -> Vec<&[u8]> {
    let (mut elements, mut end, mut quoted) = (Vec::new(), line.len(), false);
    for (at, byte) in line.iter().enumerate().rev() {
        match byte {
            b'"' if !quoted => quoted = true,
            b'"' => {
                let backslashes =
                    line[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
                quoted = backslashes % 2 == 1;
            }
            b',' if !quoted => {
                elements.push(&line[at + 1..end]);
                end = at;
            }
            _ => {}
        }
    }
    elements.push(&line[..end]);
    elements
}

/// The pieces between separators outside of quotes.
pub(crate) fn split_unquoted(bytes: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    bytes.split(move |byte| {
        if escaped {
            escaped = false;
            return false;
        }
        match byte {
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => return !quoted && *byte == separator,
        }
        false
    })
}

/// The content of a quoted string; any other value unchanged.
fn unquoted(value: &[u8]) -> Vec<u8> {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")) else {
        return value.to_vec();
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        let plain = if *byte == b'\\' { bytes.next().unwrap_or(byte) } else { byte };
        out.push(*plain);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(text: &str) -> Hop {
        text.parse().map_or(Hop::Unknown, Hop::Address)
    }

    #[test]
    fn x_forwarded_for_is_read_from_the_right_over_all_lines() {
        let lines: [&[u8]; 2] = [b"1.1.1.1, 2.2.2.2", b" 3.3.3.3:80 ,[2001:db8::1]:443"];
        let expected = ["2001:db8::1", "3.3.3.3", "2.2.2.2", "1.1.1.1"].map(hop);
        assert_eq!(x_forwarded_for(&lines), expected);
        assert_eq!(x_forwarded_for(&[b"1.1.1.1,, junk"]), ["x", "x", "1.1.1.1"].map(hop));
        assert_eq!(x_forwarded_for(&[b"::ffff:192.0.2.1"]), ["192.0.2.1"].map(hop));
    }

    #[test]
    fn forwarded_is_read_as_the_standard_writes_it() {
        let lines: [&[u8]; 2] = [
            b"for=192.0.2.60;proto=http;by=203.0.113.43, FOR=\"[2001:db8:cafe::17]:4711\"",
            b"for=unknown, proto=https;for=\"_hid,den;x\", by=1.1.1.1",
        ];
        let expected = ["x", "x", "x", "2001:db8:cafe::17", "192.0.2.60"].map(hop);
        assert_eq!(forwarded(&lines), expected);
        assert_eq!(forwarded(&[b"for=\"1.1.\\1.1\""]), ["1.1.1.1"].map(hop));
    }

    #[test]
    fn an_open_quote_of_a_client_swallows_nothing_that_a_proxy_wrote() {
        for left in
            ["for=6.6.6.6;x=\"", "\"", "for=\"6.6.6.6", "for=6.6.6.6;x=\"\\", "x=\"a\"\"", "\\\""]
        {
            for right in ["for=1.1.1.1", "for=\"1.1.1.1:80\";by=\"x,y\""] {
                let line = format!("{left}, {right}");
                assert_eq!(forwarded(&[line.as_bytes()])[0], hop("1.1.1.1"), "{line}");
            }
        }
    }

    #[test]
    fn nonsense_is_unknown_and_never_panics() {
        for text in ["", ",", "=", "for=", "for=\"", "for=\"\\", ";;;", "\"", "[", "[]", "[::1"] {
            assert!(x_forwarded_for(&[text.as_bytes()]).iter().all(|hop| *hop == Hop::Unknown));
            assert!(forwarded(&[text.as_bytes()]).iter().all(|hop| *hop == Hop::Unknown));
        }
    }
}

//! Heads of requests for tests.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_http::{Head, Lines};

/// Headers with any bytes as values, also those that frameworks reject.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnyLines(pub(crate) Vec<(&'static str, Vec<u8>)>);

impl Lines for AnyLines {
    fn line(&self, name: &str) -> Option<&[u8]> {
        self.lines(name).first().copied()
    }

    fn lines(&self, name: &str) -> Vec<&[u8]> {
        self.0.iter().filter(|(n, _)| *n == name).map(|(_, value)| &value[..]).collect()
    }
}

impl AnyLines {
    pub(crate) fn one(name: &'static str, value: impl AsRef<[u8]>) -> AnyLines {
        AnyLines(vec![(name, value.as_ref().to_vec())])
    }

    pub(crate) fn and(mut self, name: &'static str, value: impl AsRef<[u8]>) -> AnyLines {
        self.0.push((name, value.as_ref().to_vec()));
        self
    }

    pub(crate) fn head(&self) -> Head<'_> {
        Head::new("GET", "/", self)
    }

    pub(crate) fn from(&self, peer: IpAddr) -> Head<'_> {
        self.head().peer(Some(peer))
    }
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_header_map_of_the_http_crate_gives_its_lines_in_order() {
    let mut map = HeaderMap::new();
    let name = HeaderName::from_static("x-a");
    map.append(name.clone(), HeaderValue::from_static("1"));
    map.append(name, HeaderValue::from_bytes(b"\xff2").unwrap());
    assert_eq!(Lines::line(&map, "x-a"), Some(&b"1"[..]));
    assert_eq!(map.lines("x-a"), [&b"1"[..], b"\xff2"]);
    assert_eq!((Lines::line(&map, "x-b"), map.lines("x-b").len()), (None, 0));
}

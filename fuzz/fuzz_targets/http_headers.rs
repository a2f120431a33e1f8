//! No header makes the parsers panic. What a client writes before the part that a proxy wrote
//! changes nothing. Values that a response may contain are parsed without a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::Timestamp;
use tollgate_http::{ClientIp, Head, KeyBy, Lines, WrittenIn, asked_wait, rate_limit, retry_after};

/// One header.
struct Line<'a>(&'a str, &'a [u8]);

impl Lines for Line<'_> {
    fn line(&self, name: &str) -> Option<&[u8]> {
        (name == self.0).then_some(self.1)
    }

    fn lines(&self, name: &str) -> Vec<&[u8]> {
        self.line(name).into_iter().collect()
    }
}

/// Every header has this value.
struct Every<'a>(&'a [u8]);

impl Lines for Every<'_> {
    fn line(&self, _name: &str) -> Option<&[u8]> {
        Some(self.0)
    }

    fn lines(&self, _name: &str) -> Vec<&[u8]> {
        self.0.split(|byte| *byte == b'\n').collect()
    }
}

fuzz_target!(|bytes: &[u8]| {
    clients(bytes);
    keys(bytes);
    pace(bytes);
});

/// The proxy is 10.0.0.1, and has written 203.0.113.7 after whatever the client sent.
fn clients(made_up: &[u8]) {
    let proxy = "10.0.0.1".parse().ok();
    let client = "203.0.113.7".parse().ok();
    let Ok(ranges) = ClientIp::behind(["10.0.0.0/8"]) else { panic!("a range of addresses") };
    for (name, written_in, proxys) in [
        ("x-forwarded-for", WrittenIn::XForwardedFor, "203.0.113.7"),
        ("forwarded", WrittenIn::Forwarded, "for=203.0.113.7"),
        ("forwarded", WrittenIn::Forwarded, "proto=https;for=\"203.0.113.7:80\";by=\"_a\\\",;b\""),
    ] {
        let value = [made_up, b", ", proxys.as_bytes()].concat();
        let line = Line(name, &value);
        let head = Head::new("GET", "/", &line).peer(proxy);
        for how in [ranges.clone(), ClientIp::behind_hops(1)] {
            assert_eq!(how.clone().written_in(written_in).find(&head), client, "{how:?}");
        }
        // Alone it may be any address, or none.
        let alone = Every(made_up);
        let head = Head::new("GET", "/", &alone).peer(proxy);
        for how in [ranges.clone(), ClientIp::behind_hops(1), ClientIp::behind_hops(3)] {
            let _ = how.written_in(written_in).find(&head);
        }
        assert_eq!(ClientIp::peer().written_in(written_in).find(&head), proxy);
    }
}

fn keys(value: &[u8]) {
    let headers = Every(value);
    let head = Head::new("GET", "/", &headers);
    let secret = KeyBy::bearer().or(KeyBy::api_key("x-api-key"));
    let _ = secret.or(KeyBy::header("x-user").and(KeyBy::path())).find(&head);
}

/// Values that a server may send to a client.
fn pace(value: &[u8]) {
    let headers = Every(value);
    for now in [0, 1_735_689_600_000_000, u64::MAX] {
        let now = Timestamp::from_micros(now);
        let _ = retry_after(value, now);
        for status in [200, 429, 503] {
            let _ = asked_wait(status, &headers, now);
        }
    }
    let _ = rate_limit(&headers.lines("ratelimit"));
}

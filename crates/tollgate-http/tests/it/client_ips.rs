//! The client is the right-most address that no trusted proxy has written, whatever is to the left
//! of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_http::{Cidr, ClientIp, WrittenIn};

use crate::heads::{AnyLines, address};

const XFF: &str = "x-forwarded-for";
const FORWARDED: &str = "forwarded";

/// 10.0.0.0/8 and fd00::/8 are proxies, everything else is not.
fn proxies() -> ClientIp {
    let ranges: [Cidr; 2] = ["10.0.0.0/8", "fd00::/8"].map(|range| range.parse().unwrap());
    ClientIp::behind(ranges).unwrap().ipv6_prefix(128)
}

fn is_proxy(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[0] == 10,
        IpAddr::V6(v6) => v6.octets()[0] == 0xfd,
    }
}

fn proxy() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 3]>().prop_map(|[b, c, d]| IpAddr::V4(Ipv4Addr::new(10, b, c, d))),
        any::<[u8; 15]>().prop_map(|rest| {
            let mut octets = [0xfd; 16];
            octets[1..].copy_from_slice(&rest);
            IpAddr::V6(octets.into())
        }),
    ]
}

fn client() -> impl Strategy<Value = IpAddr> {
    let any = prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(|octets| IpAddr::from(octets).to_canonical()),
    ];
    any.prop_filter("a proxy", |address| !is_proxy(*address))
}

/// Writes one element of a header in different spellings.
fn written(header: &'static str, address: IpAddr, style: u8) -> String {
    let text = match (address, style % 3) {
        (IpAddr::V4(v4), 0) => v4.to_string(),
        (IpAddr::V4(v4), 1) => format!("{v4}:8080"),
        (IpAddr::V4(v4), _) => v4.to_ipv6_mapped().to_string(),
        (IpAddr::V6(v6), 0) => v6.to_string(),
        (IpAddr::V6(v6), 1) => format!("[{v6}]:443"),
        (IpAddr::V6(v6), _) => format!("[{v6}]"),
    };
    match (header, style / 3 % 4) {
        (XFF, 0 | 1) => text,
        (XFF, _) => format!("  {text}\t"),
        (_, 0) if !text.contains([':', '[']) => format!("for={text}"),
        (_, 0 | 1) => format!("For=\"{text}\""),
        (_, 2) => format!("proto=https; by=\"_a,b;for=6.6.6.6\"; for=\"{text}\""),
        _ => format!(" FOR = \"{text}\" ;host=\"x\\\"y\" "),
    }
}

/// Values that a client may send: noise, and texts that resemble addresses, quotes and separators.
fn made_up() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        vec(any::<u8>(), 0..6),
        prop::sample::select(vec![
            "6.6.6.6",
            "for=6.6.6.6",
            "for=\"",
            "\"",
            "\\",
            "\\\"",
            ",",
            ";",
            "=",
            "x=\"",
            " ",
            "10.0.0.9",
            "[",
            "]",
            "for=\"[2001:db8::6]\"",
            "::ffff:6.6.6.6",
            "unknown",
            "_hidden",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn header() -> impl Strategy<Value = (&'static str, WrittenIn)> {
    prop::sample::select(vec![(XFF, WrittenIn::XForwardedFor), (FORWARDED, WrittenIn::Forwarded)])
}

/// Elements of one header, some of them on separate lines.
fn laid_out(header: &'static str, made_up: Option<&[u8]>, elements: &[(String, bool)]) -> AnyLines {
    let mut lines: Vec<Vec<u8>> = made_up.map(<[u8]>::to_vec).into_iter().collect();
    for (element, own_line) in elements {
        match lines.last_mut() {
            Some(line) if !own_line => {
                line.extend(b",");
                line.extend(element.as_bytes());
            }
            _ => lines.push(element.as_bytes().to_vec()),
        }
    }
    AnyLines(lines.into_iter().map(|line| (header, line)).collect())
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        lines in vec((header(), made_up()), 0..4),
        peer in prop::option::of(client()),
        hops in 0..4_usize,
    ) {
        let headers = AnyLines(lines.into_iter().map(|((name, _), value)| (name, value)).collect());
        let head = headers.head().peer(peer);
        for how in [ClientIp::peer(), proxies(), ClientIp::behind_hops(hops)] {
            for written_in in [WrittenIn::XForwardedFor, WrittenIn::Forwarded] {
                let _ = how.clone().written_in(written_in).find(&head);
            }
        }
    }

    #[test]
    fn the_client_is_the_right_most_untrusted_address(
        (name, written_in) in header(),
        left in prop::option::of(made_up()),
        real in client(),
        through in vec(proxy(), 0..3),
        nearest in proxy(),
        styles in vec((any::<u8>(), any::<bool>()), 4),
    ) {
        let way: Vec<_> = std::iter::once(real).chain(through).zip(&styles)
            .map(|(address, (style, own_line))| (written(name, address, *style), *own_line))
            .collect();
        let headers = laid_out(name, left.as_deref(), &way);
        let found = proxies().written_in(written_in).find(&headers.from(nearest));
        prop_assert_eq!(found, Some(real.to_canonical()), "{:?}", headers);
    }

    #[test]
    fn without_a_proxy_the_client_is_the_peer(
        (name, written_in) in header(), lies in made_up(), peer in client(),
    ) {
        let headers = AnyLines::one(name, lies);
        let found = proxies().written_in(written_in).find(&headers.from(peer));
        prop_assert_eq!(found, Some(peer.to_canonical()));
    }

    #[test]
    fn behind_hops_the_client_is_the_address_that_the_outermost_proxy_wrote(
        (name, written_in) in header(),
        left in prop::option::of(made_up()),
        way in vec(prop_oneof![client(), proxy()], 1..5),
        styles in vec((any::<u8>(), any::<bool>()), 5),
        peer in proxy(),
    ) {
        let elements: Vec<_> = way.iter().zip(&styles)
            .map(|(address, (style, own_line))| (written(name, *address, *style), *own_line))
            .collect();
        let headers = laid_out(name, left.as_deref(), &elements);
        let how = ClientIp::behind_hops(way.len()).ipv6_prefix(128).written_in(written_in);
        prop_assert_eq!(how.find(&headers.from(peer)), Some(way[0].to_canonical()), "{:?}", headers);
    }

    #[test]
    fn several_lines_are_one_joined_line(
        (name, written_in) in header(),
        way in vec((prop_oneof![client(), proxy()], any::<u8>(), any::<bool>()), 1..6),
        peer in proxy(),
        hops in 1..7_usize,
    ) {
        let elements = |own: Option<bool>| way.iter()
            .map(|(address, style, own_line)| (written(name, *address, *style), own.unwrap_or(*own_line)))
            .collect::<Vec<_>>();
        let cut = laid_out(name, None, &elements(None));
        let joined = laid_out(name, None, &elements(Some(false)));
        prop_assert_eq!(joined.0.len(), 1);
        for how in [proxies(), ClientIp::behind_hops(hops)] {
            let how = how.written_in(written_in);
            prop_assert_eq!(how.find(&cut.from(peer)), how.find(&joined.from(peer)));
        }
    }

    #[test]
    fn an_ipv6_client_is_its_prefix(bits in any::<u128>(), other in any::<u128>(), prefix in 0..=128_u8) {
        let all = Ipv6Addr::from_bits(bits);
        prop_assume!(all.to_ipv4_mapped().is_none());
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
        let neighbour = Ipv6Addr::from_bits((bits & mask) | (other & !mask));
        prop_assume!(neighbour.to_ipv4_mapped().is_none());
        let how = ClientIp::peer().ipv6_prefix(prefix);
        let headers = AnyLines::default();
        let found = how.find(&headers.from(all.into()));
        prop_assert_eq!(found, Some(Ipv6Addr::from_bits(bits & mask).into()));
        prop_assert_eq!(found, how.find(&headers.from(neighbour.into())));
        // An address that differs in the last bit of the prefix belongs to another client.
        if prefix > 0 {
            let else_where = Ipv6Addr::from_bits(bits ^ (1 << (128 - u32::from(prefix))));
            prop_assume!(else_where.to_ipv4_mapped().is_none());
            prop_assert_ne!(found, how.find(&headers.from(else_where.into())));
        }
    }

    #[test]
    fn ipv4_written_as_ipv6_is_ipv4(octets in any::<[u8; 4]>()) {
        let v4 = Ipv4Addr::from(octets);
        let headers = AnyLines::default();
        let found = ClientIp::peer().find(&headers.from(v4.to_ipv6_mapped().into()));
        prop_assert_eq!(found, Some(IpAddr::V4(v4)));
        let all: Cidr = "0.0.0.0/0".parse().unwrap();
        prop_assert!(all.contains(v4.to_ipv6_mapped().into()));
        let one: Cidr = v4.to_ipv6_mapped().to_string().parse().unwrap();
        prop_assert!(one.contains(v4.into()));
        prop_assert_eq!(one.to_string(), format!("{v4}/32"));
    }

    #[test]
    fn a_range_has_exactly_the_addresses_with_its_prefix(
        network in any::<u32>(), prefix in 0..=32_u8, inside in any::<u32>(), bit in 0..32_u32,
    ) {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        let v4 = |bits| IpAddr::V4(Ipv4Addr::from_bits(bits));
        let range = Cidr::new(v4(network), prefix).unwrap();
        let inside = (network & mask) | (inside & !mask);
        prop_assert!(range.contains(v4(inside)));
        let flipped = inside ^ (1 << bit);
        prop_assert_eq!(range.contains(v4(flipped)), mask & (1 << bit) == 0);
        prop_assert_eq!(range.to_string().parse::<Cidr>().unwrap(), range);
    }
}

#[test]
fn x_forwarded_for_taken_from_the_left_is_what_the_client_wrote() {
    let headers = AnyLines::one(XFF, "6.6.6.6, 203.0.113.7");
    let head = headers.from(address("10.0.0.1"));
    assert_eq!(ClientIp::default().find(&head), Some(address("10.0.0.1")), "nobody is trusted");
    assert_eq!(proxies().find(&head), Some(address("203.0.113.7")));
}

#[test]
fn the_header_that_proxies_do_not_write_is_not_looked_at() {
    let headers = AnyLines::one(FORWARDED, "for=6.6.6.6").and(XFF, "203.0.113.7");
    let head = headers.from(address("10.0.0.1"));
    assert_eq!(proxies().find(&head), Some(address("203.0.113.7")));
    let headers = AnyLines::one(XFF, "6.6.6.6");
    let forwarded = proxies().written_in(WrittenIn::Forwarded);
    assert_eq!(forwarded.find(&headers.from(address("10.0.0.1"))), Some(address("10.0.0.1")));
}

#[test]
fn a_trusted_proxy_that_does_not_know_leaves_no_address() {
    for unknown in ["unknown", "6.6.6.6, unknown", "6.6.6.6, ", "6.6.6.6, 300.1.1.1"] {
        let headers = AnyLines::one(XFF, unknown);
        assert_eq!(proxies().find(&headers.from(address("10.0.0.1"))), None, "{unknown}");
    }
}

#[test]
fn fewer_entries_than_hops_or_no_peer_leave_no_address() {
    let headers = AnyLines::one(XFF, "1.1.1.1");
    assert_eq!(ClientIp::behind_hops(2).find(&headers.from(address("10.0.0.1"))), None);
    assert_eq!(ClientIp::behind_hops(usize::MAX).find(&headers.head()), None);
    assert_eq!(ClientIp::behind_hops(1).find(&headers.head()), Some(address("1.1.1.1")));
    assert_eq!(ClientIp::behind_hops(0).find(&headers.head()), None);
    assert_eq!(ClientIp::peer().find(&headers.head()), None);
    assert_eq!(proxies().find(&headers.head()), None, "who wrote it is not known");
}

#[test]
fn a_request_of_a_trusted_proxy_itself_counts_for_the_proxy() {
    let headers = AnyLines::default();
    assert_eq!(proxies().find(&headers.from(address("10.0.0.1"))), Some(address("10.0.0.1")));
    let headers = AnyLines::one(XFF, "10.0.0.2");
    assert_eq!(proxies().find(&headers.from(address("10.0.0.1"))), Some(address("10.0.0.2")));
}

#[test]
fn an_open_quote_in_forwarded_swallows_nothing() {
    let forwarded = proxies().written_in(WrittenIn::Forwarded);
    for (client, proxy) in
        [("for=6.6.6.6;x=\"", "for=203.0.113.7"), ("for=6.6.6.6;x=\"", "for=\"203.0.113.7\"")]
    {
        let headers = AnyLines::one(FORWARDED, format!("{client}, {proxy}"));
        let head = headers.from(address("10.0.0.1"));
        assert_eq!(forwarded.find(&head), Some(address("203.0.113.7")));
    }
}

#[test]
fn an_invalid_range_is_an_error_with_its_rule() {
    for (text, says) in [
        ("", "\"\": not an address; expected an address or address/prefix, as 10.0.0.0/8"),
        (
            "10.0.0.0/",
            "\"10.0.0.0/\": not a prefix; expected an address or address/prefix, as 10.0.0.0/8",
        ),
        ("10.0.0.0/33", "prefix /33: 10.0.0.0 has 32 bits"),
        ("::/129", "prefix /129: :: has 128 bits"),
    ] {
        assert_eq!(text.parse::<Cidr>().unwrap_err().to_string(), says);
    }
}

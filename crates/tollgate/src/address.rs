//! Addresses as keys. All addresses that one client can choose from become one key.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the address that identifies a client in a key.
///
/// - An IPv4 address stays as it is. An IPv4 address that is written as IPv6 (`::ffff:192.0.2.1`),
///   as on a socket that listens on `[::]`, becomes IPv4. Otherwise one client would have two
///   counters.
/// - Of an IPv6 address the first `ipv6_prefix` bits are kept, and the other bits are cleared. A
///   customer of an access provider has at least a /64, which is 2^64 addresses, so a limit on
///   single IPv6 addresses has no effect. Use 64. Use 56 or 48 if a client can have many such
///   networks. A prefix of more than 128 bits counts as 128: every address is a client of its own.
///
/// ```
/// use std::net::IpAddr;
/// use tollgate::{Limit, Memory, client_address};
///
/// let limiter = Memory::new().limiter(Limit::per_minute(1))?;
/// let mut hit = |peer: IpAddr| limiter.hit(client_address(peer, 64)).allowed();
///
/// assert!(hit("192.0.2.1".parse()?));
/// assert!(!hit("::ffff:192.0.2.1".parse()?), "the same client");
/// assert!(hit("2001:db8::1".parse()?));
/// assert!(!hit("2001:db8::2:3:4".parse()?), "the same /64");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
#[doc(alias = "per ip")]
#[doc(alias = "cidr")]
pub fn client_address(address: impl Into<IpAddr>, ipv6_prefix: u8) -> IpAddr {
    match address.into().to_canonical() {
        v4 @ IpAddr::V4(_) => v4,
        IpAddr::V6(v6) => {
            let cleared = 128_u32.saturating_sub(u32::from(ipv6_prefix));
            // `checked_shl` returns `None` for a shift by all 128 bits, which clears every bit.
            let mask = u128::MAX.checked_shl(cleared).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::client_address;

    #[test]
    fn all_addresses_of_one_client_become_the_same_address() {
        let full = "2001:db8:aaaa:bbff:1:2:3:4";
        let cases = [
            ("192.0.2.1", 64, "192.0.2.1"),
            ("::ffff:192.0.2.1", 64, "192.0.2.1"),
            ("::ffff:192.0.2.1", 0, "192.0.2.1"),
            ("::1", 128, "::1"),
            (full, 64, "2001:db8:aaaa:bbff::"),
            (full, 56, "2001:db8:aaaa:bb00::"),
            (full, 48, "2001:db8:aaaa::"),
            (full, 128, full),
            (full, 129, full),
            (full, 255, full),
            (full, 1, "::"),
            (full, 0, "::"),
        ];
        for (address, prefix, client) in cases {
            let parse = |text: &str| text.parse::<std::net::IpAddr>().expect(text);
            assert_eq!(client_address(parse(address), prefix), parse(client), "{address}/{prefix}");
        }
    }
}

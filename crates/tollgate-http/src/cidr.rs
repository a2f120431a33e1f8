//! Ranges of addresses.

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses: `10.0.0.0/8`, `2001:db8::/32`, or a single address.
///
/// ```
/// use tollgate_http::Cidr;
/// let private: Cidr = "10.0.0.0/8".parse()?;
/// assert!(private.contains("10.1.2.3".parse()?));
/// assert!(private.contains("::ffff:10.1.2.3".parse()?));
/// assert!(!private.contains("11.0.0.1".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// The range of all addresses with the first `prefix` bits of this one.
    ///
    /// # Errors
    /// When the address has fewer bits.
    ///
    /// ```
    /// # use tollgate_http::Cidr;
    /// assert!(Cidr::new("10.0.0.0".parse()?, 33).is_err());
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn new(address: IpAddr, prefix: u8) -> Result<Cidr, CidrError> {
        let address = canonical(address);
        if prefix > bits(address) {
            return Err(CidrError(format!(
                "prefix /{prefix}: {address} has {} bits",
                bits(address)
            )));
        }
        Ok(Cidr { network: masked(address, prefix), prefix })
    }

    /// Whether the range contains the address. An IPv4 address written as IPv6 is an IPv4 address.
    ///
    /// See the example of [`Cidr`].
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = canonical(address);
        bits(address) == bits(self.network) && masked(address, self.prefix) == self.network
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Cidr, CidrError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let wrong = |what: &str| {
            CidrError(format!(
                "{text:?}: {what}; expected an address or address/prefix, as 10.0.0.0/8"
            ))
        };
        let address: IpAddr = address.parse().map_err(|_| wrong("not an address"))?;
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| wrong("not a prefix"))?,
            None => bits(canonical(address)),
        };
        // The prefix of an IPv4 address written as IPv6 counts from its own first bit.
        let mapped = bits(canonical(address)) != bits(address);
        let prefix = if mapped && prefix >= 96 { prefix - 96 } else { prefix };
        Cidr::new(address, prefix)
    }
}

impl TryFrom<&str> for Cidr {
    type Error = CidrError;

    fn try_from(text: &str) -> Result<Cidr, CidrError> {
        text.parse()
    }
}

impl TryFrom<String> for Cidr {
    type Error = CidrError;

    fn try_from(text: String) -> Result<Cidr, CidrError> {
        text.parse()
    }
}

impl TryFrom<&String> for Cidr {
    type Error = CidrError;

    fn try_from(text: &String) -> Result<Cidr, CidrError> {
        text.parse()
    }
}

/// Why a text is not a range of addresses.
///
/// ```
/// # use tollgate_http::Cidr;
/// let error = "10.0.0.0/40".parse::<Cidr>().unwrap_err();
/// assert_eq!(error.to_string(), "prefix /40: 10.0.0.0 has 32 bits");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct CidrError(String);

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CidrError {}

/// Lets functions take a [`Cidr`] or a text.
impl From<Infallible> for CidrError {
    fn from(never: Infallible) -> CidrError {
        match never {}
    }
}

/// Converts an IPv4 address written as IPv6 (`::ffff:192.0.2.1`) to IPv4.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The address with all bits after the prefix cleared.
pub(crate) fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

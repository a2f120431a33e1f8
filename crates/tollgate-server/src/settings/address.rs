//! The text form of the address of a port.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address to listen on, or `off`. A port alone listens on the loopback address, which no other
/// machine can reach.
///
/// ```
/// use tollgate_server::settings::Address;
/// assert_eq!("8080".parse::<Address>()?.to_string(), "127.0.0.1:8080");
/// assert_eq!("0.0.0.0:8080".parse::<Address>()?.to_string(), "0.0.0.0:8080");
/// assert_eq!("off".parse::<Address>()?.socket(), None);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(Option<SocketAddr>);

impl Address {
    /// The address; `None` for `off`.
    #[must_use]
    pub fn socket(self) -> Option<SocketAddr> {
        self.0
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.eq_ignore_ascii_case("off") {
            return Ok(Address(None));
        }
        let local = |port: &str| port.parse().ok().map(|port| (Ipv4Addr::LOCALHOST, port).into());
        let named = text.strip_prefix("localhost:").unwrap_or(text);
        match local(named).or_else(|| text.parse().ok()) {
            Some(address) => Ok(Address(Some(address))),
            None => Err(format!(
                "{text:?} is no address: expected a port (8080), an address with a port (127.0.0.1:8080, [::1]:8080) or off"
            )),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_local_and_invalid_text_is_refused() {
        for (text, shown) in [
            ("8080", "127.0.0.1:8080"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::1]:80", "[::1]:80"),
            ("OFF", "off"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for text in ["", "70000", "example.com:80", "127.0.0.1", ":8080"] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.starts_with(&format!("{text:?} is no address")), "{error}");
        }
    }
}

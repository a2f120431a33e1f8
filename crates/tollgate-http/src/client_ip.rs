//! Finds the client's address: the peer, or an address that trusted proxies name.
//!
//! Every sender of a request can write `X-Forwarded-For` and `Forwarded`. The client may have
//! written the left part itself, so only the right part counts: read from the right, an address is
//! trusted as long as a trusted proxy wrote it. The first address that is not a trusted proxy is
//! the client. By default no proxy is trusted, and the client is the peer.

use std::net::IpAddr;
use std::num::NonZeroUsize;

use crate::cidr::{Cidr, CidrError, masked};
use crate::forwarded::{Hop, forwarded, x_forwarded_for};
use crate::head::Head;

/// How the address of a client is found.
///
/// ```
/// use tollgate_http::{ClientIp, Head};
///
/// let headers = http::HeaderMap::from_iter([(
///     http::HeaderName::from_static("x-forwarded-for"),
///     http::HeaderValue::from_static("6.6.6.6, 203.0.113.7, 10.0.0.2"), // the first one is made up
/// )]);
/// let head = Head::new("GET", "/", &headers).peer("10.0.0.1".parse().ok());
///
/// assert_eq!(ClientIp::peer().find(&head), "10.0.0.1".parse().ok());
/// let behind_proxies = ClientIp::behind(["10.0.0.0/8"])?;
/// assert_eq!(behind_proxies.find(&head), "203.0.113.7".parse().ok());
/// # Ok::<(), tollgate_http::CidrError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "proxy")]
#[doc(alias = "x-forwarded-for")]
pub struct ClientIp {
    trust: Trust,
    written_in: WrittenIn,
    ipv6_prefix: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Trust {
    Nobody,
    Ranges(Box<[Cidr]>),
    Hops(NonZeroUsize),
}

/// The header that names the hops of a request.
///
/// ```
/// use tollgate_http::{ClientIp, WrittenIn};
/// let client = ClientIp::behind_hops(1).written_in(WrittenIn::Forwarded);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WrittenIn {
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl ClientIp {
    /// The peer of the connection.
    ///
    /// See the example of [`ClientIp`].
    #[must_use]
    pub const fn peer() -> ClientIp {
        ClientIp { trust: Trust::Nobody, written_in: WrittenIn::XForwardedFor, ipv6_prefix: 64 }
    }

    /// Behind proxies with addresses in these ranges: the right-most address that is not one of
    /// theirs. The client of a request that did not come through a proxy is its peer.
    ///
    /// See the example of [`ClientIp`].
    ///
    /// # Errors
    /// When a text is neither an address nor a range of addresses.
    #[doc(alias = "proxy")]
    pub fn behind<I>(proxies: I) -> Result<ClientIp, CidrError>
    where
        I: IntoIterator,
        I::Item: TryInto<Cidr>,
        CidrError: From<<I::Item as TryInto<Cidr>>::Error>,
    {
        let ranges = proxies.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(ClientIp { trust: Trust::Ranges(ranges), ..ClientIp::peer() })
    }

    /// The client is behind this many proxies, whatever their addresses: its address is the one
    /// that the outermost proxy has written. Use it only where the server can be reached through
    /// the proxies alone.
    ///
    /// ```
    /// # use tollgate_http::{ClientIp, Head};
    /// # let headers = http::HeaderMap::from_iter([(http::HeaderName::from_static("x-forwarded-for"),
    /// #     http::HeaderValue::from_static("6.6.6.6, 203.0.113.7"))]);
    /// let head = Head::new("GET", "/", &headers).peer("10.0.0.1".parse().ok());
    /// assert_eq!(ClientIp::behind_hops(1).find(&head), "203.0.113.7".parse().ok());
    /// ```
    #[must_use]
    #[doc(alias = "proxy")]
    pub const fn behind_hops(proxies: usize) -> ClientIp {
        ClientIp {
            trust: match NonZeroUsize::new(proxies) {
                Some(proxies) => Trust::Hops(proxies),
                None => Trust::Nobody,
            },
            written_in: WrittenIn::XForwardedFor,
            ipv6_prefix: 64,
        }
    }

    /// The header that the proxies write. The other one is ignored, because a client may have sent
    /// it.
    ///
    /// See the example of [`WrittenIn`].
    #[must_use]
    pub const fn written_in(mut self, header: WrittenIn) -> ClientIp {
        self.written_in = header;
        self
    }

    /// How many bits of an IPv6 address identify one client. Default 64: a client with one address
    /// of a network has all of them.
    ///
    /// ```
    /// # use tollgate_http::{ClientIp, Head};
    /// # let headers = http::HeaderMap::new();
    /// let head = Head::new("GET", "/", &headers).peer("2001:db8::1:2:3:4".parse().ok());
    /// assert_eq!(ClientIp::peer().find(&head), "2001:db8::".parse().ok());
    /// assert_eq!(ClientIp::peer().ipv6_prefix(128).find(&head), "2001:db8::1:2:3:4".parse().ok());
    /// ```
    #[must_use]
    pub const fn ipv6_prefix(mut self, bits: u8) -> ClientIp {
        self.ipv6_prefix = if bits > 128 { 128 } else { bits };
        self
    }

    /// The address that stands for the client of a request; `None` when the peer is not known (a
    /// Unix socket, a test) or a trusted proxy does not name its client.
    ///
    /// See the example of [`ClientIp`].
    #[must_use]
    #[inline]
    pub fn find(&self, head: &Head<'_>) -> Option<IpAddr> {
        self.find_by(head.peer, || match self.written_in {
            WrittenIn::XForwardedFor => head.lines("x-forwarded-for"),
            WrittenIn::Forwarded => head.lines("forwarded"),
        })
    }

    /// The same for a request of which only these are known: the peer, and the lines of the header
    /// that the proxies write. An access log has no more.
    ///
    /// ```
    /// # use tollgate_http::ClientIp;
    /// let client = ClientIp::behind_hops(1).find_by(None, || vec![b"6.6.6.6, 203.0.113.7"]);
    /// assert_eq!(client, "203.0.113.7".parse().ok());
    /// ```
    #[must_use]
    #[inline]
    pub fn find_by<'h>(
        &self,
        peer: Option<IpAddr>,
        lines: impl FnOnce() -> Vec<&'h [u8]>,
    ) -> Option<IpAddr> {
        let found = match &self.trust {
            Trust::Nobody => peer,
            Trust::Ranges(proxies) => self.beyond(proxies, peer?, &lines()),
            Trust::Hops(count) => self.hop(*count, &lines()),
        };
        found.map(|address| self.client_of(address))
    }

    /// Whether the address is read from a header: behind proxies.
    ///
    /// ```
    /// # use tollgate_http::ClientIp;
    /// assert!(ClientIp::behind_hops(1).reads_header() && !ClientIp::peer().reads_header());
    /// ```
    #[must_use]
    pub fn reads_header(&self) -> bool {
        !matches!(self.trust, Trust::Nobody)
    }

    /// The first address, counted from here, that is not one of these proxies.
    fn beyond(&self, proxies: &[Cidr], peer: IpAddr, lines: &[&[u8]]) -> Option<IpAddr> {
        let trusted = |address| proxies.iter().any(|range| range.contains(address));
        let mut address = peer;
        for hop in self.hops(lines) {
            if !trusted(address) {
                break;
            }
            match hop {
                Hop::Address(next) => address = next,
                // A trusted proxy does not know its client, so the address is unknown.
                Hop::Unknown => return None,
            }
        }
        Some(address)
    }

    /// The address behind that many proxies.
    fn hop(&self, proxies: NonZeroUsize, lines: &[&[u8]]) -> Option<IpAddr> {
        match self.hops(lines).get(proxies.get() - 1) {
            Some(Hop::Address(address)) => Some(*address),
            // Fewer entries than proxies: the request did not pass all of them.
            Some(Hop::Unknown) | None => None,
        }
    }

    fn hops(&self, lines: &[&[u8]]) -> Vec<Hop> {
        match self.written_in {
            WrittenIn::XForwardedFor => x_forwarded_for(lines),
            WrittenIn::Forwarded => forwarded(lines),
        }
    }

    /// The address that stands for all addresses of one client.
    fn client_of(&self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            v4 @ IpAddr::V4(_) => v4,
            v6 @ IpAddr::V6(_) => masked(v6, self.ipv6_prefix),
        }
    }
}

impl Default for ClientIp {
    fn default() -> Self {
        ClientIp::peer()
    }
}

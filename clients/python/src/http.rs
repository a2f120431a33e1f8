//! Functions for middleware: the address of the client, and the headers of a response.

use std::net::IpAddr;

use pyo3::prelude::*;
use tollgate_http::{ClientIp, Headers, WrittenIn, address};

use crate::error::request;

/// How the address of a client is found: the peer of the connection, or an address that trusted
/// proxies name.
#[pyclass(frozen, module = "pytollgate")]
#[derive(Debug)]
pub(crate) struct ClientAddress {
    client: ClientIp,
    header: WrittenIn,
}

#[pymethods]
impl ClientAddress {
    #[new]
    #[pyo3(signature = (*, behind=None, hops=None, header="x-forwarded-for", ipv6_prefix=64))]
    fn new(
        py: Python<'_>,
        behind: Option<Vec<String>>,
        hops: Option<usize>,
        header: &str,
        ipv6_prefix: u8,
    ) -> PyResult<ClientAddress> {
        let client = match (behind, hops) {
            (None, None) => ClientIp::peer(),
            (Some(ranges), None) => ClientIp::behind(ranges.iter().map(String::as_str))
                .map_err(|error| request(py, error.to_string()))?,
            (None, Some(hops)) if hops > 0 => ClientIp::behind_hops(hops),
            (None, Some(_)) => return Err(request(py, "hops 0: must be at least 1")),
            (Some(_), Some(_)) => {
                return Err(request(py, "behind and hops: only one of them may be given"));
            }
        };
        let header = match &header.to_ascii_lowercase()[..] {
            "x-forwarded-for" => WrittenIn::XForwardedFor,
            "forwarded" => WrittenIn::Forwarded,
            _ => {
                let rule = "must be x-forwarded-for or forwarded";
                return Err(request(py, format!("header {header:?}: {rule}")));
            }
        };
        if ipv6_prefix > 128 {
            return Err(request(py, format!("ipv6_prefix {ipv6_prefix}: must be at most 128")));
        }
        Ok(ClientAddress { client: client.written_in(header).ipv6_prefix(ipv6_prefix), header })
    }

    /// The header whose lines `find` needs; `None` if only the peer counts.
    #[getter]
    fn header(&self) -> Option<&'static str> {
        self.client.reads_header().then_some(match self.header {
            WrittenIn::Forwarded => "forwarded",
            _ => "x-forwarded-for",
        })
    }

    /// The address that stands for the client: of a peer, and the lines of the header that proxies
    /// write. `None` if it is not known.
    #[pyo3(signature = (peer, lines=Vec::new()))]
    fn find(&self, peer: Option<&str>, lines: Vec<Vec<u8>>) -> Option<String> {
        let peer: Option<IpAddr> = peer.and_then(|peer| address(peer.as_bytes()));
        let lines = || lines.iter().map(Vec::as_slice).collect();
        self.client.find_by(peer, lines).map(|address| address.to_string())
    }
}

pub(crate) fn headers_named(py: Python<'_>, names: &[String]) -> PyResult<Headers> {
    names.iter().try_fold(Headers::none(), |headers, name| {
        headers.named(name).ok_or_else(|| {
            let known = "ratelimit, ratelimit-limit, x-ratelimit, x-ratelimit-unix, retry-after";
            request(py, format!("headers {name:?}: known are {known}"))
        })
    })
}

/// Raises `RequestError` if one of these is not the name of headers.
#[pyfunction]
pub(crate) fn check_headers(py: Python<'_>, names: Vec<String>) -> PyResult<()> {
    headers_named(py, &names).map(drop)
}

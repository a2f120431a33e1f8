//! The peer and the route of a request, from the extensions of servers and routers.

use std::net::{IpAddr, SocketAddr};

use http::{Extensions, Request};
use tollgate_http::Head;

/// The address of the peer of a request, as an extension of it: for servers that are neither axum
/// nor tonic. It has priority over theirs.
///
/// ```
/// use std::net::SocketAddr;
/// use tollgate_tower::PeerAddr;
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(PeerAddr(SocketAddr::from(([192, 0, 2, 1], 443))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

/// The head of a request of this peer, with its route.
#[inline]
pub(crate) fn head_of<B>(peer: Option<IpAddr>, request: &Request<B>) -> Head<'_> {
    routed(unrouted_head_of(peer, request))
}

/// The head of a request of this peer, for gates that do not
/// [read](tollgate_http::Gate::reads_head) the rest.
#[inline]
pub(crate) fn unrouted_head_of<B>(peer: Option<IpAddr>, request: &Request<B>) -> Head<'_> {
    let head = Head::new(request.method().as_str(), request.uri().path(), request.headers());
    head.peer(peer).extensions(request.extensions())
}

/// axum's `nest` removes the start of a path, and keeps the whole path as an extension.
#[cfg(feature = "axum")]
fn routed(mut head: Head<'_>) -> Head<'_> {
    use axum::extract::{MatchedPath, OriginalUri};

    if let Some(original) = head.extension::<OriginalUri>() {
        head = head.nested_path(head.path);
        head.path = original.0.path();
    }
    head.route(head.extension::<MatchedPath>().map(MatchedPath::as_str))
}

#[cfg(not(feature = "axum"))]
fn routed(head: Head<'_>) -> Head<'_> {
    head
}

/// The peer of a request, from its extensions.
pub(crate) fn peer_of<B>(request: &mut Request<B>) -> Option<IpAddr> {
    let extensions = request.extensions_mut();
    let ours = extensions.get::<PeerAddr>().map(|peer| peer.0);
    let found = ours.or_else(|| axum(extensions)).or_else(|| tonic(extensions));
    found.map(|address| address.ip())
}

#[cfg(feature = "axum")]
fn axum(extensions: &Extensions) -> Option<SocketAddr> {
    extensions.get::<axum::extract::ConnectInfo<SocketAddr>>().map(|info| info.0)
}

#[cfg(not(feature = "axum"))]
fn axum(_: &Extensions) -> Option<SocketAddr> {
    None
}

/// Uses tonic's own request type, because the extension depends on its features: TLS or not.
#[cfg(feature = "tonic")]
fn tonic(extensions: &mut Extensions) -> Option<SocketAddr> {
    let theirs = std::mem::take(extensions);
    let request = tonic::Request::from_parts(tonic::metadata::MetadataMap::new(), theirs, ());
    let address = request.remote_addr();
    *extensions = request.into_parts().1;
    address
}

#[cfg(not(feature = "tonic"))]
fn tonic(_: &mut Extensions) -> Option<SocketAddr> {
    None
}

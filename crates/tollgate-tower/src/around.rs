//! A whole axum app behind a limit. The router boxes the future of a layer inside of it with each
//! request. Around the router nothing is boxed, and the listener knows the peer.

use std::convert::Infallible;
use std::fmt;
use std::future::{self, Future, Ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use pin_project_lite::pin_project;
use tollgate_http::Decider;
use tower_service::Service;

use crate::future::ResponseFuture;
use crate::layer::RateLimitLayer;

/// An axum app all of whose requests are limited, for [`axum::serve()`]. Made by
/// [`RateLimitLayer::around`].
#[derive(Clone, Debug)]
pub struct Around<D: Decider> {
    app: Router,
    rules: RateLimitLayer<D>,
}

/// The requests of one connection of an [`Around`].
pub struct Connection<D: Decider> {
    app: Router,
    /// Servers clone and move a connection for each of its requests: it is small.
    source: Arc<(RateLimitLayer<D>, SocketAddr)>,
}

/// Does not print the peer address: it is personal data.
impl<D: Decider> fmt::Debug for Connection<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("rules", &self.source.0).finish_non_exhaustive()
    }
}

impl<D: Decider> Clone for Connection<D> {
    fn clone(&self) -> Self {
        Connection { app: self.app.clone(), source: Arc::clone(&self.source) }
    }
}

impl<D: Decider> RateLimitLayer<D> {
    /// Limits all requests of an app, also those that match no route. It does not need
    /// `into_make_service_with_connect_info`: the listener gives the peer, and handlers find it as
    /// a [`ConnectInfo`] all the same.
    ///
    /// ```no_run
    /// use axum::{Router, routing::get};
    /// use tollgate::Memory;
    /// use tollgate_tower::RateLimitLayer;
    ///
    /// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    /// let app = Router::new().route("/", get(|| async { "hello" }));
    /// let limit = RateLimitLayer::new(Memory::new().limiter("100/minute")?);
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    /// axum::serve(listener, limit.around(app)).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn around(&self, app: Router) -> Around<D> {
        Around { app, rules: self.clone() }
    }
}

impl<D: Decider> Around<D> {
    /// The requests of a connection from this peer: for servers that accept connections
    /// themselves.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use axum::{Router, body::Body, extract::Request, routing::get};
    /// use tollgate::Memory;
    /// use tollgate_tower::RateLimitLayer;
    /// use tower::ServiceExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::Error> {
    /// let app = Router::new().route("/", get(|| async { "hello" }));
    /// let app = RateLimitLayer::new(Memory::new().limiter("1/minute")?).around(app);
    /// let peer = SocketAddr::from(([192, 0, 2, 1], 50_000));
    /// for status in [200, 429] {
    ///     let Ok(response) = app.connection(peer).oneshot(Request::new(Body::empty())).await;
    ///     assert_eq!(response.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn connection(&self, peer: SocketAddr) -> Connection<D> {
        Connection { app: self.app.clone(), source: Arc::new((self.rules.clone(), peer)) }
    }
}

impl<D: Decider, L: Listener<Addr = SocketAddr>> Service<IncomingStream<'_, L>> for Around<D> {
    type Response = Connection<D>;
    type Error = Infallible;
    type Future = Ready<Result<Connection<D>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, stream: IncomingStream<'_, L>) -> Self::Future {
        future::ready(Ok(self.connection(*stream.remote_addr())))
    }
}

impl<D: Decider> Service<Request> for Connection<D> {
    type Response = Response;
    type Error = Infallible;
    type Future = AroundFuture<D>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request>::poll_ready(&mut self.app, cx)
    }

    fn call(&mut self, mut request: Request) -> AroundFuture<D> {
        let (rules, peer) = &*self.source;
        request.extensions_mut().insert(ConnectInfo(*peer));
        AroundFuture { response: rules.call(&mut self.app, Some(peer.ip()), request) }
    }
}

pin_project! {
    /// The future response of an [`Around`].
    pub struct AroundFuture<D: Decider> {
        #[pin]
        response: ResponseFuture<Router, D, Body, Body>,
    }
}

impl<D: Decider> fmt::Debug for AroundFuture<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.response.fmt(f)
    }
}

impl<D: Decider> Future for AroundFuture<D> {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().response.poll(cx).map_ok(|response| response.map(Into::into))
    }
}

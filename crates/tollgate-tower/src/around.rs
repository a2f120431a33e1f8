//! A whole axum app behind a limit. A layer inside of a router is boxed with each request; around
//! it, it is not, and the listener says who the peer is.

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
use axum::http::Extensions;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use axum::serve::{IncomingStream, Listener};
use pin_project_lite::pin_project;
use tollgate_http::{AtOnce, Decider, Foreseen, Told};
use tower_layer::Layer;
use tower_service::Service;

use crate::future::ResponseFuture;
use crate::headers::write_headers;
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
    /// Servers clone a connection for each of its requests, and move it about: it is small.
    known: Arc<Known<D>>,
}

struct Known<D: Decider> {
    rules: RateLimitLayer<D>,
    peer: SocketAddr,
    /// What each request is given: its [`ConnectInfo`].
    extensions: Extensions,
    /// What all requests ask, where nothing but the peer counts.
    foreseen: Option<Foreseen<D>>,
}

/// Its peer belongs to people.
impl<D: Decider> fmt::Debug for Connection<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("rules", &self.known.rules).finish_non_exhaustive()
    }
}

impl<D: Decider> Clone for Connection<D> {
    fn clone(&self) -> Self {
        Connection { app: self.app.clone(), known: Arc::clone(&self.known) }
    }
}

impl<D: Decider> RateLimitLayer<D> {
    /// Limits all requests of an app, those that no route fits too. It does not need
    /// `into_make_service_with_connect_info`: the peer is whom the listener says, and handlers find
    /// it as a [`ConnectInfo`] all the same.
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
    /// The requests of a connection that comes from there: for servers that accept connections
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
        let rules = self.rules.clone();
        let foreseen = rules.foresee(peer.ip());
        let mut extensions = roomy();
        extensions.insert(ConnectInfo(peer));
        let known = Known { rules, peer, extensions, foreseen };
        Connection { app: self.app.clone(), known: Arc::new(known) }
    }
}

/// None yet, with room for what a router adds to a request: there it need not grow. A clone keeps
/// the room.
fn roomy() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(0_u8);
    extensions.insert(0_u16);
    extensions.insert(0_u32);
    extensions.insert(0_u64);
    extensions.clear();
    extensions
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
        let Known { rules, peer, extensions, foreseen } = &*self.known;
        request.extensions_mut().extend(extensions.clone());
        let looked = match foreseen {
            Some(foreseen) => rules.gate.foreseen(foreseen),
            None => rules.look(Some(peer.ip()), &request),
        };
        match looked {
            AtOnce::Passes(told) => {
                AroundFuture { passing: Some(self.app.call(request)), told, other: None }
            }
            looked => {
                let other = Some(self.other(looked, request));
                AroundFuture { passing: None, told: None, other }
            }
        }
    }
}

impl<D: Decider> Connection<D> {
    /// The way of requests that do not just pass: refused ones, and all whose store has to be
    /// waited for. Apart: it needs much of the stack.
    #[inline(never)]
    fn other(&self, looked: AtOnce<D>, request: Request) -> Other<D> {
        Box::pin(self.known.rules.layer(self.app.clone()).go_on(looked, request))
    }
}

/// Boxed: servers move a future about, and it is large.
type Other<D> = Pin<Box<ResponseFuture<Router, D, Body, Body>>>;

/// Apart, for the same reason.
#[inline(never)]
fn poll_other<D: Decider>(
    other: &mut Other<D>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response, Infallible>> {
    other.as_mut().poll(cx).map_ok(|response| response.map(Into::into))
}

// Not an enum of two ways: the future of the app would be copied once more on its way to the
// server.
pin_project! {
    /// The response of an [`Around`], to come.
    pub struct AroundFuture<D: Decider> {
        // The shortest way, which most requests take: with the app, and nothing is left to do but
        // to tell.
        #[pin]
        passing: Option<RouteFuture<Infallible>>,
        told: Option<Told>,
        other: Option<Other<D>>,
    }
}

impl<D: Decider> fmt::Debug for AroundFuture<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.other {
            None => f.write_str("AroundFuture(handled)"),
            Some(future) => future.fmt(f),
        }
    }
}

impl<D: Decider> Future for AroundFuture<D> {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(future) = this.passing.as_pin_mut() {
            let mut polled = future.poll(cx);
            if let (Poll::Ready(Ok(response)), Some(told)) = (&mut polled, this.told) {
                write_headers(told, response.headers_mut());
            }
            return polled;
        }
        let other = this.other.as_mut().expect("a request passes or goes another way");
        poll_other(other, cx)
    }
}

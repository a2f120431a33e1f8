//! One connection that speaks HTTP/1.1 or HTTP/2.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;

use crate::net::{Draining, Stream};
use crate::observe::Protocol;
use crate::service::Service;
use crate::telemetry::Seldom;

/// How often an idle HTTP/2 client gets a ping.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long a stopping server waits for bytes that clients have already sent.
const LAST_CALL: Duration = Duration::from_millis(100);

/// The preface of HTTP/2, which distinguishes the versions, in bytes.
const PREFACE: usize = 24;

/// The longest head of a request, in bytes. More than nginx (33 KiB) and Envoy (60 KiB) let a
/// client send by default, so that a proxy which forwards all headers gets a decision and not an
/// error.
const MAX_HEAD: usize = 128 * 1024;

/// The most concurrent requests of one connection.
const MAX_STREAMS: u32 = 256;

/// Serves connections.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    builder: Builder<TokioExecutor>,
    patience: Duration,
    service: Arc<Service>,
    protocol: Protocol,
}

impl Talk {
    /// `patience` is how long clients may take to send the head of a request, and to start the next
    /// one.
    pub(crate) fn new(patience: Duration, service: Arc<Service>, protocol: Protocol) -> Talk {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(patience)
            .max_buf_size(MAX_HEAD);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEPALIVE)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEAD as u32);
        Talk { builder, patience, service, protocol }
    }

    /// Serves the requests of a connection until its client or the server ends it. Requests that
    /// have arrived are answered.
    pub(crate) async fn on<F, T, B>(&self, stream: Stream, mut draining: Draining, answer: F)
    where
        F: Fn(Request<Incoming>) -> T,
        T: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        let told = draining.clone();
        let answer = service_fn(|request: Request<Incoming>| {
            let one = request.version() < http::Version::HTTP_2;
            let (answer, told) = (answer(request), told.clone());
            async move {
                let mut response = answer.await;
                if one && told.has_begun() {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response)
            }
        });
        let stream = TokioIo::new(stream.begins_within(self.patience, PREFACE));
        let mut talk = pin!(self.builder.serve_connection(stream, answer));
        let mut stop = pin!(async {
            draining.begun().await;
            // A request that was already sent would be lost with an idle connection.
            tokio::time::sleep(LAST_CALL).await;
        });
        let ended = tokio::select! {
            ended = &mut talk => ended,
            () = &mut stop => {
                talk.as_mut().graceful_shutdown();
                talk.await
            }
        };
        if let Err(error) = ended {
            self.count_rejected(&*error);
        }
    }

    /// Counts and logs a request that could not be parsed; hyper has answered it with 400 or 431.
    /// Other errors mean that the client went away.
    fn count_rejected(&self, error: &(dyn std::error::Error + 'static)) {
        static SELDOM: Seldom = Seldom::new();
        let parsing = error.downcast_ref::<hyper::Error>().filter(|error| error.is_parse());
        let Some(error) = parsing else { return };
        self.service.observer().port(self.protocol).wrong();
        if let Some(suppressed) = SELDOM.may() {
            tracing::warn!(port = self.protocol.name(), %error, suppressed, "a request was rejected");
        }
    }
}

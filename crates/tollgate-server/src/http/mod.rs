//! HTTP and JSON: questions in, answers out, and the check that proxies ask.
//!
//! ```text
//! request ──▶ route ──▶ question (query or JSON) ──▶ Service ──▶ reply (JSON, headers)
//! ```

mod ask;
mod body;
mod check;
mod help;
mod json;
mod problem;
mod query;
mod question;
mod reply;
mod route;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;

use crate::net::{Draining, Port};
use crate::service::Service;

/// How long a client may take to send the head of a request, and to begin the next one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Answers on this port until it is time to stop.
pub async fn serve(port: Port, service: Arc<Service>, draining: Draining) {
    let mut connection = auto::Builder::new(TokioExecutor::new());
    connection
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .pipeline_flush(true);
    connection
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HEAD_TIMEOUT)
        .max_concurrent_streams(256)
        .max_header_list_size(16 * 1024);
    let connection = Arc::new(connection);
    port.serve(draining, move |stream, _peer, mut draining| {
        let (service, connection) = (Arc::clone(&service), Arc::clone(&connection));
        async move {
            let answer = service_fn(move |request| {
                let service = Arc::clone(&service);
                async move { Ok::<_, Infallible>(route::answer(&service, request).await) }
            });
            let talk = connection.serve_connection(TokioIo::new(stream), answer);
            let mut talk = std::pin::pin!(talk);
            // An error here is a client that went away or spoke something else: nobody to tell.
            tokio::select! {
                _ = &mut talk => {}
                () = draining.begun() => {
                    talk.as_mut().graceful_shutdown();
                    let _ = talk.await;
                }
            }
        }
    })
    .await;
}

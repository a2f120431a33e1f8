//! One connection that speaks HTTP/1.1 or HTTP/2.

use std::convert::Infallible;
use std::future::Future;
use std::sync::LazyLock;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;

use super::reply::Reply;
use crate::net::{Draining, Stream};

/// How long a client may take to send the head of a request, and to begin the next one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Requests at once on one connection.
const MAX_STREAMS: u32 = 256;

static BUILDER: LazyLock<Builder<TokioExecutor>> = LazyLock::new(|| {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .pipeline_flush(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HEAD_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32);
    builder
});

/// Answers everything on a connection, until its client or the server has had enough; what was begun is answered.
pub(crate) async fn talk<F, T>(stream: Stream, mut draining: Draining, answer: F)
where
    F: Fn(Request<Incoming>) -> T,
    T: Future<Output = Response<Reply>> + Send + 'static,
{
    let answer = service_fn(|request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut talk = std::pin::pin!(BUILDER.serve_connection(TokioIo::new(stream), answer));
    // An error here is a client that went away or spoke something else: nobody to tell.
    tokio::select! {
        _ = &mut talk => {}
        () = draining.begun() => {
            talk.as_mut().graceful_shutdown();
            let _ = talk.await;
        }
    }
}

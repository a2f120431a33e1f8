//! One connection: HTTP/2 with bounds, and a graceful end.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::calls::CallExecutor;
use super::handler::Handler;
use crate::net::{Draining, Stream};

/// The preface of HTTP/2.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The response to HTTP/1, which is most likely sent by a person.
const SORRY: &[u8] = b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\ncontent-length: 42\r\nconnection: close\r\n\r\nthis port speaks gRPC, which needs HTTP/2\n";

/// How long a client may take to answer a keep-alive ping.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a stopping server waits for bytes that clients have already sent.
const LAST_CALL: Duration = Duration::from_millis(100);

/// Serves calls until the client disconnects, the connection is too old, or the server stops; then
/// finishes the calls that have arrived.
pub(super) async fn serve(mut stream: Stream, handler: Arc<Handler>, mut draining: Draining) {
    let options = handler.options();
    let (patience, max_age) = (options.patience, options.max_age);
    let begun = tokio::select! {
        begun = tokio::time::timeout(patience, begins(&mut stream)) => begun,
        () = last_call(&mut draining) => return,
    };
    if !matches!(begun, Ok(Ok(true))) {
        return;
    }
    let calls = CallExecutor::default();
    let mut http = http2::Builder::new(calls.clone());
    http.timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(options.max_streams)
        .max_header_list_size(options.max_header)
        .keep_alive_interval(options.keepalive)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    let service = hyper::service::service_fn(move |request| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, std::convert::Infallible>(handler.answer(request).await) }
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(Begun::new(stream)), service));
    let old = async {
        match max_age {
            Some(age) => tokio::time::sleep(age).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = poll_fn(|cx| calls.poll(connection.as_mut(), cx)) => return,
        () = draining.begun() => {}
        () = old => {}
    }
    connection.as_mut().graceful_shutdown();
    poll_fn(|cx| calls.poll(connection.as_mut(), cx)).await;
}

/// Ends when the server stops and bytes that clients have already sent had time to arrive.
async fn last_call(draining: &mut Draining) {
    draining.begun().await;
    tokio::time::sleep(LAST_CALL).await;
}

/// Reads the preface: whether this is HTTP/2.
async fn begins(stream: &mut Stream) -> io::Result<bool> {
    let mut read = [0; PREFACE.len()];
    let mut length = 0;
    while length < read.len() {
        let more = stream.read(&mut read[length..]).await?;
        length += more;
        if more == 0 || !PREFACE.starts_with(&read[..length]) {
            stream.write_all(SORRY).await?;
            stream.shutdown().await?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// A stream whose preface was read, and can be read once more.
struct Begun {
    preface: &'static [u8],
    stream: Stream,
}

impl Begun {
    fn new(stream: Stream) -> Begun {
        Begun { preface: PREFACE, stream }
    }
}

impl AsyncRead for Begun {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let begun = self.get_mut();
        if begun.preface.is_empty() {
            return Pin::new(&mut begun.stream).poll_read(cx, buffer);
        }
        let (now, later) = begun.preface.split_at(begun.preface.len().min(buffer.remaining()));
        buffer.put_slice(now);
        begun.preface = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Begun {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

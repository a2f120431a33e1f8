//! One connection: HTTP/2 with limits, and a polite end.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::calls::Calls;
use super::handler::Handler;
use crate::net::{Draining, Stream};

/// How every connection of HTTP/2 begins.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// For whoever comes with HTTP/1, a person most likely.
const SORRY: &[u8] = b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\ncontent-length: 42\r\nconnection: close\r\n\r\nthis port speaks gRPC, which needs HTTP/2\n";

/// How long somebody may take to say that it is still there.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long bytes that are on their way are waited for when the server stops.
const LAST_CALL: Duration = Duration::from_millis(100);

/// Talks until the other side ends it, it is too old, or it is time to stop; then answers what was
/// asked before.
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
    let calls = Calls::default();
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

/// It is time to stop, and whoever was about to say something has had the time for it.
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

/// A stream whose preface was read: it is there to be read once more.
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

//! A connection with or without TLS, with a timeout on everything that waits for the client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;

/// How long a client may leave responses unread.
const UNREAD: Duration = Duration::from_secs(30);

/// How long a closed connection still reads what the client sends.
const LINGER: Duration = Duration::from_secs(1);

/// A connection.
#[derive(Debug)]
pub struct Stream {
    bytes: Bytes,
    idle: Option<Box<Idle>>,
    begins: Option<Box<Begins>>,
    unread: Option<Pin<Box<Sleep>>>,
    /// Set once the write half is closed.
    linger: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum Bytes {
    /// A connection without TLS.
    Plain(TcpStream),
    /// Boxed, because connections without TLS are many and should be small.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Closes a connection on which nothing arrives.
#[derive(Debug)]
struct Idle {
    timeout: Duration,
    /// Whether something arrived since the timer was set. It is read only when the timer ends, so
    /// that reading from the socket costs nothing extra.
    active: bool,
    timer: Pin<Box<Sleep>>,
}

/// Closes a connection whose first bytes do not arrive in time.
#[derive(Debug)]
struct Begins {
    /// The number of bytes that are still missing.
    missing: usize,
    timer: Pin<Box<Sleep>>,
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Self {
        Stream::new(Bytes::Plain(socket))
    }
}

impl From<TlsStream<TcpStream>> for Stream {
    fn from(tls: TlsStream<TcpStream>) -> Self {
        Stream::new(Bytes::Tls(Box::new(tls)))
    }
}

impl Stream {
    fn new(bytes: Bytes) -> Stream {
        Stream { bytes, idle: None, begins: None, unread: None, linger: None }
    }

    /// Ends the connection, as if the client had closed it, when nothing arrives for this long;
    /// after twice this time at the latest.
    #[must_use]
    pub fn idle_for(mut self, timeout: Option<Duration>) -> Stream {
        self.idle = timeout.map(|timeout| {
            let timer = Box::pin(tokio::time::sleep(timeout));
            Box::new(Idle { timeout, active: false, timer })
        });
        self
    }

    /// Ends the connection, as if the client had closed it, when its first bytes do not arrive in
    /// this time.
    #[must_use]
    pub fn begins_within(mut self, patience: Duration, bytes: usize) -> Stream {
        let timer = Box::pin(tokio::time::sleep(patience));
        self.begins = Some(Box::new(Begins { missing: bytes, timer }));
        self
    }

    /// Called after reading. Whether it is time to close.
    fn is_over(&mut self, cx: &mut Context<'_>, read: Option<usize>) -> bool {
        if let Some(begins) = &mut self.begins {
            begins.missing = begins.missing.saturating_sub(read.unwrap_or(0));
            if begins.missing == 0 {
                self.begins = None;
            } else if begins.timer.as_mut().poll(cx).is_ready() {
                return true;
            }
        }
        match (&mut self.idle, read) {
            (Some(idle), Some(_)) => {
                idle.active = true;
                false
            }
            (Some(idle), None) => idle.is_over(cx),
            (None, _) => false,
        }
    }

    /// Closes the connection of a client that does not read its responses.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.unread = None;
            return result;
        }
        let timer = self.unread.get_or_insert_with(|| Box::pin(tokio::time::sleep(UNREAD)));
        timer.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Reads and drops what the client still sends, until it closes its side or [`LINGER`] is over.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 2048];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match self.bytes.poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        match &mut self.linger {
            Some(timer) => timer.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}

impl Bytes {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Bytes::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            Bytes::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl Idle {
    /// Whether it is time to close.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        while self.timer.as_mut().poll(cx).is_ready() {
            if !self.active {
                return true;
            }
            self.active = false;
            self.timer.as_mut().reset(Instant::now() + self.timeout);
        }
        false
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.bytes.poll_read(cx, buffer);
        if self.idle.is_none() && self.begins.is_none() {
            return read;
        }
        let count = read.is_ready().then(|| buffer.filled().len() - before);
        if self.is_over(cx, count) {
            // Reports the end of the stream and ignores the bytes.
            buffer.set_filled(before);
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.bytes {
            Bytes::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Bytes::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        };
        self.written(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.bytes {
            // Nothing is buffered, so the timer need not be checked.
            Bytes::Plain(_) => return Poll::Ready(Ok(())),
            Bytes::Tls(tls) => Pin::new(tls).poll_flush(cx),
        };
        self.written(cx, flushed)
    }

    /// Closes the write half, then reads until the client closes its side. Without that the system
    /// would reset a connection that still has unread bytes, and the client would lose the last
    /// answer, such as the reason why its request was rejected.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            let shut = match &mut self.bytes {
                Bytes::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
                Bytes::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
            };
            ready!(self.written(cx, shut))?;
            self.linger = Some(Box::pin(tokio::time::sleep(LINGER)));
        }
        self.poll_discard(cx).map(Ok)
    }
}

//! Connections in memory: a server gets requests and sends responses as over sockets, without a
//! kernel in between.

use std::future::pending;
use std::io::{Error, IoSlice, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// The number of connections that wrk keeps open.
const LINES: usize = 32;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const GOOD: &[u8] = b"HTTP/1.1 200 ";

/// The state that all lines of a server share.
#[derive(Default)]
struct Shared {
    /// Requests that are not sent yet.
    left: AtomicUsize,
    /// Lines that wait for more requests.
    waiting: Mutex<Vec<Waker>>,
    all_wait: Notify,
    refused: AtomicBool,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client's side of all lines.
pub(super) struct Client(Arc<Shared>);

impl Client {
    /// Sends this many requests and waits for their responses. `false` if one was not valid.
    pub(super) async fn ask(&self, requests: usize) -> bool {
        self.0.left.store(requests, Ordering::Relaxed);
        for line in self.0.waiting().drain(..) {
            line.wake();
        }
        self.0.all_wait.notified().await;
        !self.0.refused.load(Ordering::Relaxed)
    }
}

/// The server's side of all lines.
pub(super) struct Lines {
    shared: Arc<Shared>,
    accepted: u16,
}

/// Makes both sides of the connections.
pub(super) fn lines() -> (Client, Lines) {
    let shared = Arc::<Shared>::default();
    (Client(Arc::clone(&shared)), Lines { shared, accepted: 0 })
}

impl Listener for Lines {
    type Io = Line;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Line, SocketAddr) {
        if usize::from(self.accepted) == LINES {
            pending::<()>().await;
        }
        self.accepted += 1;
        let peer = SocketAddr::from(([192, 0, 2, 1], 50_000 + self.accepted));
        (Line { shared: Arc::clone(&self.shared), rest: &[], gave_way: true }, peer)
    }

    fn local_addr(&self) -> Result<SocketAddr> {
        Ok(SocketAddr::from(([192, 0, 2, 2], 80)))
    }
}

/// One connection.
pub(super) struct Line {
    shared: Arc<Shared>,
    /// The unread part of a request.
    rest: &'static [u8],
    /// Whether other lines had their turn since the last request.
    gave_way: bool,
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if self.rest.is_empty() {
            let left = self.shared.left.load(Ordering::Relaxed);
            if left == 0 {
                let mut waiting = self.shared.waiting();
                waiting.push(cx.waker().clone());
                if waiting.len() == LINES {
                    self.shared.all_wait.notify_one();
                }
                return Poll::Pending;
            }
            self.gave_way = !self.gave_way;
            if self.gave_way {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.shared.left.store(left - 1, Ordering::Relaxed);
            self.rest = REQUEST;
        }
        let (now, later) = self.rest.split_at(self.rest.len().min(into.remaining()));
        into.put_slice(now);
        self.rest = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(from)])
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// A hello world is written in one call, its head first.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        if !from.first().is_some_and(|head| head.starts_with(GOOD)) {
            self.shared.refused.store(true, Ordering::Relaxed);
            self.shared.all_wait.notify_one();
            return Poll::Ready(Err(Error::other("a response that is not 200")));
        }
        Poll::Ready(Ok(from.iter().map(|slice| slice.len()).sum()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}

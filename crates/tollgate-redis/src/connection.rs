//! A multiplexed connection that gathers the commands of its callers.
//!
//! The task of a connection runs as soon as the first caller has a command, and would write each
//! command separately. With many callers in flight, a system call for each is half of the cost of a
//! hit on the client. So the task lets other callers that are ready add their commands, and writes
//! all of them together.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, Pipeline, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;

/// A handle: clones share the connection, which is closed with the last of them.
#[derive(Clone)]
pub(crate) struct Connection {
    requests: MultiplexedConnection,
    /// `None` where the crate spawns the task.
    task: Option<Arc<Task>>,
}

struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// With TLS the crate creates the stream, so commands are not gathered there.
    pub(crate) async fn open(client: &Client, config: AsyncConnectionConfig) -> RedisResult<Self> {
        match client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) => {
                let stream = tokio::net::TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Connection::over(stream, client, config).await
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await?;
                Connection::over(stream, client, config).await
            }
            _ => {
                let requests = client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Connection { requests, task: None })
            }
        }
    }

    async fn over<S>(stream: S, client: &Client, config: AsyncConnectionConfig) -> RedisResult<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = Gathering { stream, let_others_go: false };
        let login = client.get_connection_info().redis_settings();
        let opened = MultiplexedConnection::new_with_config(login, stream, config).await?;
        let (requests, driver) = opened;
        let task = Task(tokio::spawn(driver).abort_handle());
        Ok(Connection { requests, task: Some(Arc::new(task)) })
    }

    /// Ends it with all calls that wait for replies. With TLS they wait until their deadlines.
    pub(crate) fn close(&self) {
        if let Some(task) = &self.task {
            task.0.abort();
        }
    }

    pub(crate) async fn send(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        self.requests.send_packed_command(cmd).await
    }

    /// Sends two commands, and returns the reply of the second.
    pub(crate) async fn send_two(&mut self, both: &Pipeline) -> RedisResult<Vec<Value>> {
        self.requests.send_packed_commands(both, 1, 1).await
    }
}

/// A stream that lets other tasks run before it writes.
struct Gathering<S> {
    stream: S,
    let_others_go: bool,
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.let_others_go {
            self.let_others_go = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        self.let_others_go = false;
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn before_each_write_other_tasks_run_once() {
        let mut stream = Gathering { stream: Vec::new(), let_others_go: false };
        let mut cx = Context::from_waker(Waker::noop());
        for word in [b"one", b"two"] {
            assert!(Pin::new(&mut stream).poll_write(&mut cx, word).is_pending());
            let written = Pin::new(&mut stream).poll_write(&mut cx, word);
            assert!(matches!(written, Poll::Ready(Ok(3))), "{written:?}");
        }
        assert_eq!(stream.stream, b"onetwo");
    }
}

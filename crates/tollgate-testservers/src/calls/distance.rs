//! A proxy that makes a server seem far away.

use std::net::TcpListener as StdListener;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Largest piece of data that is forwarded as a whole.
const PIECE: usize = 2_048;

/// A TCP proxy with latency and limited bandwidth in front of a server of this machine.
///
/// Unlike [`Line::delay`](super::Line::delay), it accepts more bytes while others are in flight.
#[derive(Debug)]
pub struct Distance {
    port: u16,
}

impl Distance {
    /// Forwards to this port. Bytes arrive `delay` later in both directions. Each connection sends
    /// at most `rate` bytes a second to the server. Must be called inside a tokio runtime.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn to(server: u16, delay: Duration, rate: u32) -> Distance {
        let bound = || {
            let listener = StdListener::bind(("127.0.0.1", 0))?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?.port(), TcpListener::from_std(listener)?))
        };
        let (port, listener) = bound().unwrap_or_else(|error: std::io::Error| panic!("{error}"));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(carry(from_client, to_server, delay, Some(rate)));
                tokio::spawn(carry(from_server, to_client, delay, None));
            }
        });
        Distance { port }
    }

    /// The port on which the proxy listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin + Send + 'static,
    delay: Duration,
    rate: Option<u32>,
) {
    let (sender, mut pieces) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, piece)) = pieces.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    });
    let mut sent = Instant::now();
    loop {
        let mut piece = vec![0; PIECE];
        let count = match from.read(&mut piece).await {
            Ok(count @ 1..) => count,
            _ => return,
        };
        piece.truncate(count);
        let takes = rate.map(|rate| Duration::from_secs(1) * count as u32 / rate);
        sent = sent.max(Instant::now()) + takes.unwrap_or_default();
        if sender.send((sent + delay, piece)).is_err() {
            return;
        }
    }
}

//! A proxy that disturbs the traffic to a server.

use std::net::TcpListener as StdListener;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A TCP proxy with faults in front of a server of this machine.
#[derive(Debug)]
pub struct Line {
    port: u16,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    flow: Flow,
    /// Grows with each [`replace`](Line::replace). Older connections forward nothing any more.
    replaced: u64,
}

/// How bytes are forwarded, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Flow {
    #[default]
    Free,
    /// Held back until [`Line::mend`].
    Cut,
    /// All connections are closed, new ones too.
    Severed,
    /// Each piece arrives this much later.
    Late(Duration),
    /// Each byte is a piece of its own.
    Drip,
}

impl Line {
    /// Forwards to this port. Must be called inside a tokio runtime.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn to(server: u16) -> Line {
        let bound = || {
            let listener = StdListener::bind(("127.0.0.1", 0))?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?.port(), TcpListener::from_std(listener)?))
        };
        let (port, listener) = bound().unwrap_or_else(|error: std::io::Error| panic!("{error}"));
        let (sender, state) = watch::channel(State::default());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(carry(from_client, to_server, state.clone()));
                tokio::spawn(carry(from_server, to_client, state.clone()));
            }
        });
        Line { port, state: sender }
    }

    /// The port on which the proxy listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    fn set(&self, flow: Flow) {
        self.state.send_modify(|state| state.flow = flow);
    }

    /// Forwards nothing in either direction. Connections stay open.
    pub fn cut(&self) {
        self.set(Flow::Cut);
    }

    /// Closes all connections, and each new one.
    pub fn sever(&self) {
        self.set(Flow::Severed);
    }

    /// Delays all bytes.
    pub fn delay(&self, span: Duration) {
        self.set(Flow::Late(span));
    }

    /// Forwards byte by byte.
    pub fn drip(&self) {
        self.set(Flow::Drip);
    }

    /// Forwards normally again. Bytes that were held back arrive.
    pub fn mend(&self) {
        self.set(Flow::Free);
    }

    /// Forwards new connections only. Existing ones stay open, and nothing passes on them any more.
    pub fn replace(&self) {
        let next =
            |state: &mut State| *state = State { flow: Flow::Free, replaced: state.replaced + 1 };
        self.state.send_modify(next);
    }
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut state: watch::Receiver<State>,
) {
    let replaced = state.borrow().replaced;
    let mut bytes = vec![0; 16_384];
    let mut severed = state.clone();
    let is_severed = |state: &State| state.flow == Flow::Severed;
    loop {
        let count = tokio::select! {
            read = from.read(&mut bytes) => match read {
                Ok(count @ 1..) => count,
                _ => return,
            },
            _ = severed.wait_for(is_severed) => return,
        };
        // Keeps the connection open until the proxy ends: the peer would notice a close.
        let moves = |state: &State| state.flow != Flow::Cut && state.replaced == replaced;
        let Ok(flow) = state.wait_for(moves).await.map(|state| state.flow) else { return };
        if deliver(&mut to, &bytes[..count], flow).await.is_err() {
            return;
        }
    }
}

async fn deliver(
    to: &mut (impl AsyncWriteExt + Unpin),
    bytes: &[u8],
    flow: Flow,
) -> std::io::Result<()> {
    match flow {
        Flow::Late(span) => tokio::time::sleep(span).await,
        Flow::Drip => {
            for byte in bytes {
                to.write_all(std::slice::from_ref(byte)).await?;
                to.flush().await?;
                tokio::task::yield_now().await;
            }
            return Ok(());
        }
        Flow::Free | Flow::Cut | Flow::Severed => {}
    }
    to.write_all(bytes).await
}

//! A line on which everything can go wrong.

use std::net::TcpListener as StdListener;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Leads to a server of this machine.
#[derive(Debug)]
pub struct Line {
    port: u16,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    flow: Flow,
    /// Connections from before the last replacement lead nowhere.
    replaced: u64,
}

/// What becomes of bytes, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Flow {
    #[default]
    Free,
    /// Held until it is mended.
    Cut,
    /// All connections are ended, and new ones too.
    Severed,
    /// Each piece so much later.
    Late(Duration),
    /// One by one.
    Drip,
}

impl Line {
    /// To the server on that port. Call it inside a tokio runtime.
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

    /// Where it begins.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    fn set(&self, flow: Flow) {
        self.state.send_modify(|state| state.flow = flow);
    }

    /// Not a byte more, in either direction. Both ends keep their connections and hear nothing.
    pub fn cut(&self) {
        self.set(Flow::Cut);
    }

    /// Connections are ended, and so is each new one.
    pub fn sever(&self) {
        self.set(Flow::Severed);
    }

    /// Everything arrives so much later.
    pub fn delay(&self, span: Duration) {
        self.set(Flow::Late(span));
    }

    /// Byte by byte.
    pub fn drip(&self) {
        self.set(Flow::Drip);
    }

    /// On with it: what was held arrives.
    pub fn mend(&self) {
        self.set(Flow::Free);
    }

    /// Another line in its place: who was connected hears nothing for ever, and is not told.
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
        // Ends with the line, not before: an end would be heard.
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

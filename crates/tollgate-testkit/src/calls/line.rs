//! A line that can be cut.

use std::net::TcpListener as StdListener;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Leads to a server of this machine. While it is cut, both ends hear nothing and keep their connections.
#[derive(Debug)]
pub struct Line {
    port: u16,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    cut: bool,
    /// Connections from before the last replacement lead nowhere.
    replaced: u64,
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

    /// Not a byte more, in either direction.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cut = true);
    }

    /// On with it: what was sent meanwhile arrives.
    pub fn mend(&self) {
        self.state.send_modify(|state| state.cut = false);
    }

    /// Another line in its place: who was connected hears nothing for ever, and is not told.
    pub fn replace(&self) {
        self.state.send_modify(|state| *state = State { cut: false, replaced: state.replaced + 1 });
    }
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut state: watch::Receiver<State>,
) {
    let replaced = state.borrow().replaced;
    let mut bytes = vec![0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        // Ends with the line, not before: an end would be heard.
        let whole = |state: &State| !state.cut && state.replaced == replaced;
        if state.wait_for(whole).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

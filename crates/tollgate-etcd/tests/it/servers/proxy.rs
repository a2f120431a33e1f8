//! A line that can be cut.

use std::net::TcpListener as StdListener;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Leads to a server. While it is cut, both ends hear nothing and keep their connections; what was sent arrives when it is mended.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    cut: watch::Sender<bool>,
}

impl Proxy {
    /// Call it inside a tokio runtime.
    pub(crate) fn to(server: u16) -> Proxy {
        let listener = StdListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cut, is_cut) = watch::channel(false);
        tokio::spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(carry(from_client, to_server, is_cut.clone()));
                tokio::spawn(carry(from_server, to_client, is_cut.clone()));
            }
        });
        Proxy { port, cut }
    }

    pub(crate) fn url(&self) -> String {
        format!("etcd://127.0.0.1:{}", self.port)
    }

    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }

    pub(crate) fn mend(&self) {
        self.cut.send_replace(false);
    }
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut cut: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if cut.wait_for(|cut| !cut).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

//! A line to a server that can be cut.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// While it is cut both ends keep their connections and hear nothing; new ones are not answered.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    whole: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (whole, seen) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let ((from, to), (back_from, back_to)) = (client.into_split(), server.into_split());
                tokio::spawn(carry(from, back_to, seen.clone()));
                tokio::spawn(carry(back_from, to, seen.clone()));
            }
        });
        Proxy { port, whole }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

/// What is under way when the line is cut is lost with its connection.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut whole: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 65_536];
    loop {
        let Ok(length @ 1..) = from.read(&mut bytes).await else { return };
        if !*whole.borrow() {
            // Not a word more on this one, not even that it has ended.
            let _ = whole.wait_for(|whole| *whole).await;
            return;
        }
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

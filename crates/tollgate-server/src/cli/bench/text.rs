//! A connection that speaks RESP or HTTP/1.1.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Bench;
use super::failure::Failure;
use super::load::Keys;
use super::wire::{self, Outcome, Wire};

#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    address: SocketAddr,
    wire: Wire,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Connection {
    /// Connects, and logs in if the protocol does that once per connection.
    pub(super) async fn open(
        wire: Wire,
        bench: &Bench,
        socket: TcpStream,
    ) -> Result<Connection, Failure> {
        let (address, input) = (bench.address(), Vec::with_capacity(64 * 1024));
        let mut connection = Connection { socket, address, wire, out: Vec::new(), input };
        if let Some(greeting) = wire::greeting(wire, bench.token.as_deref()) {
            connection.out = greeting;
            let mut refused = None;
            let see = |outcome| {
                if let Outcome::Error(failure) = outcome {
                    refused = Some(failure);
                }
            };
            connection.exchange(1, see).await?;
            if let Some(failure) = refused {
                return Err(failure);
            }
        }
        Ok(connection)
    }

    /// Sends this many requests and reads their responses.
    pub(super) async fn ask(
        &mut self,
        bench: &Bench,
        keys: &mut Keys,
        see: impl FnMut(Outcome),
    ) -> Result<(), Failure> {
        self.out.clear();
        for _ in 0..bench.depth() {
            let (key, token) = (keys.next(bench.keys), bench.token.as_deref());
            wire::question(self.wire, &bench.limit, token, key, &mut self.out);
        }
        self.exchange(bench.depth(), see).await
    }

    async fn exchange(
        &mut self,
        mut answers: u16,
        mut see: impl FnMut(Outcome),
    ) -> Result<(), Failure> {
        let address = self.address;
        let failed = |error: std::io::Error| Failure::io(address, &error);
        self.socket.write_all(&self.out).await.map_err(failed)?;
        let mut at = 0;
        while answers > 0 {
            if let Some((outcome, length)) = wire::answer(self.wire, &self.input[at..])? {
                see(outcome);
                at += length;
                answers -= 1;
            } else if self.socket.read_buf(&mut self.input).await.map_err(failed)? == 0 {
                return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
        self.input.drain(..at);
        Ok(())
    }
}

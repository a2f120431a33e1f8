//! One connection. Callers put their requests into one buffer, which is written for all of them in
//! one call. Replies go to the caller that has waited longest, because servers answer in order.
//! Each request has an opaque token that comes back with most replies. A reply with the token of
//! another request ends the connection.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};
use tollgate::Error;

use crate::reply::Reply;

/// The most requests that wait for an answer. Further ones are rejected, because a server that is
/// so far behind cannot be used.
const MOST: usize = 100_000;

/// The most bytes of one read.
const READ: usize = 64 * 1024;

/// A function that writes a request with its opaque token.
type Write<'a> = dyn Fn(&mut Vec<u8>, u32) + 'a;

/// An answer that is awaited.
pub(crate) type Pending = oneshot::Receiver<Result<Reply, Error>>;

#[derive(Debug)]
pub(crate) struct Connection {
    /// Each connection to this server has another number.
    pub(crate) number: u64,
    /// The largest item that the server accepts, in bytes.
    pub(crate) largest: usize,
    line: Mutex<Line>,
    to_write: Notify,
    to_end: Notify,
}

#[derive(Debug, Default)]
struct Line {
    out: Vec<u8>,
    waiting: VecDeque<Waiting>,
    /// The number of waiting requests, from the first, that may have been sent.
    sent: usize,
    next: u32,
    ended: bool,
}

#[derive(Debug)]
struct Waiting {
    opaque: u32,
    answer: oneshot::Sender<Result<Reply, Error>>,
}

impl Connection {
    pub(crate) fn new(number: u64, largest: usize) -> Connection {
        let line = Mutex::default();
        Connection { number, largest, line, to_write: Notify::new(), to_end: Notify::new() }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends requests one right after the other. Each function writes one of them with the opaque
    /// token that it gets.
    pub(crate) fn send<const N: usize>(
        &self,
        writes: [&Write<'_>; N],
    ) -> Result<[Pending; N], Error> {
        let mut line = self.line();
        if line.ended {
            return Err(Error::unavailable("the connection was lost"));
        }
        if line.waiting.len() + N > MOST {
            return Err(Error::unavailable(format!("{MOST} requests wait for an answer already")));
        }
        let first = line.out.is_empty();
        let pending = writes.map(|write| {
            let opaque = line.next;
            line.next = line.next.wrapping_add(1);
            write(&mut line.out, opaque);
            let (answer, pending) = oneshot::channel();
            line.waiting.push_back(Waiting { opaque, answer });
            pending
        });
        drop(line);
        if first {
            self.to_write.notify_one();
        }
        Ok(pending)
    }

    /// Ends the connection from outside.
    pub(crate) fn end(&self) {
        self.to_end.notify_one();
    }

    /// Reads and writes until that fails, then answers all waiting callers with an error. Returns
    /// the reason.
    pub(crate) async fn run(
        &self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
    ) -> String {
        let why = tokio::select! {
            why = self.read(reader) => why,
            Err(error) = self.write(writer) => error.to_string(),
            () = self.to_end.notified() => "no answer for too long".to_owned(),
        };
        let mut line = self.line();
        line.ended = true;
        let sent = line.sent;
        for (index, waiting) in line.waiting.drain(..).enumerate() {
            let error = if index < sent { Error::lost } else { Error::unavailable };
            let _ = waiting.answer.send(Err(error(format!("the connection was lost: {why}"))));
        }
        why
    }

    async fn write(&self, mut writer: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            self.to_write.notified().await;
            // Lets other callers that are ready add their requests, so that one write serves all.
            tokio::task::yield_now().await;
            bytes.clear();
            {
                let mut line = self.line();
                std::mem::swap(&mut bytes, &mut line.out);
                line.sent = line.waiting.len();
            }
            writer.write_all(&bytes).await?;
        }
    }

    async fn read(&self, mut reader: impl AsyncRead + Unpin) -> String {
        let (mut bytes, mut start) = (Vec::with_capacity(READ), 0);
        let mut replies = Vec::new();
        loop {
            bytes.drain(..start);
            start = 0;
            bytes.reserve(READ);
            match reader.read_buf(&mut bytes).await {
                Ok(0) => return "it was closed".to_owned(),
                Ok(_) => {}
                Err(error) => return error.to_string(),
            }
            let end = loop {
                match Reply::parse(&bytes[start..]) {
                    Ok(Some((reply, length))) => {
                        start += length;
                        replies.push(reply);
                    }
                    Ok(None) => break None,
                    Err(malformed) => break Some(malformed.to_string()),
                }
            };
            let answered = self.answer(&mut replies);
            if let Some(why) = answered.err().or(end) {
                return why;
            }
        }
    }

    fn answer(&self, replies: &mut Vec<Reply>) -> Result<(), String> {
        let mut line = self.line();
        for reply in replies.drain(..) {
            // The server may have read a request that it did not understand as several.
            let confused = matches!(reply, Reply::Refused(_));
            let own = |waiting: &Waiting| reply.opaque().is_none_or(|o| o == waiting.opaque);
            if !line.waiting.front().is_some_and(own) {
                return Err(format!("an unexpected reply: {reply:?}"));
            }
            let Some(waiting) = line.waiting.pop_front() else { return Ok(()) };
            line.sent = line.sent.saturating_sub(1);
            let why = confused.then(|| format!("a request was refused: {reply:?}"));
            let _ = waiting.answer.send(Ok(reply));
            if let Some(why) = why {
                return Err(why);
            }
        }
        Ok(())
    }
}

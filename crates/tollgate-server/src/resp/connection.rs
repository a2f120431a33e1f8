//! One connection: reads what has arrived, runs all complete commands, writes the replies together.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};
use tollgate::{Clock, SystemClock};

use super::buffer::{Buffer, Output};
use super::input_bounds::{COMMAND_TIME, LAST_CALL, UNREAD, UNREAD_TIME};
use super::parser::Parser;
use super::reply::Reply;
use super::session::{Session, Step};
use super::store_command::{Action, StoreCommand, write};
use super::trace::Traced;
use super::transaction::Transaction;
use super::waiting::WaitingCommands;
use crate::net::{Draining, Stream};
use crate::observe::Protocol;
use crate::service::Service;

pub(super) struct Connection {
    stream: Stream,
    service: Arc<Service>,
    clock: SystemClock,
    session: Session,
    input: Buffer,
    parser: Parser,
    output: Output,
    /// Whether complete commands may be left, because too many replies were unread.
    backlog: bool,
    /// How long a command may take from its first byte to its last.
    patience: Duration,
    /// Ends a command that takes too long to arrive.
    arriving: Timer,
    /// Ends a client that does not read.
    unread: Timer,
}

type Timer = Option<Pin<Box<Sleep>>>;

/// Why reading ended.
enum Event {
    /// There are commands to run.
    Bytes,
    /// The connection ends.
    End,
}

impl Connection {
    pub(super) fn new(
        stream: Stream,
        service: Arc<Service>,
        clock: SystemClock,
        session: Session,
    ) -> Connection {
        Connection {
            stream,
            service,
            clock,
            session,
            input: Buffer::default(),
            parser: Parser::default(),
            output: Output::default(),
            backlog: false,
            patience: COMMAND_TIME,
            arriving: None,
            unread: None,
        }
    }

    /// Waits at most this long for a command, if that is shorter than the default.
    pub(super) fn patient_for(mut self, patience: Duration) -> Connection {
        self.patience = self.patience.min(patience);
        self
    }

    /// Runs until the client disconnects or the server stops.
    pub(super) async fn talk(mut self, draining: Draining) {
        let stop = draining.clone();
        let mut told = draining;
        let mut told = pin!(async move { told.begun().await });
        let mut asked_to_stop = false;
        let mut last_call: Timer = None;
        loop {
            let event = poll_fn(|cx| {
                if passed(&mut last_call, cx) {
                    return Poll::Ready(Event::End);
                }
                if let Poll::Ready(event) = self.poll_event(cx) {
                    return Poll::Ready(event);
                }
                // Polled once: a stop of the server wakes this task, and then `stop` is read.
                if !asked_to_stop {
                    asked_to_stop = true;
                    if told.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
                if !stop.has_begun() {
                    return Poll::Pending;
                }
                let timer = last_call.get_or_insert_with(|| Box::pin(sleep(LAST_CALL)));
                timer.as_mut().poll(cx).map(|()| Event::End)
            })
            .await;
            match event {
                Event::End => break,
                Event::Bytes => {
                    let begin = self.clock.now();
                    self.answer().await;
                    let stats = self.service.observer().port(Protocol::Resp);
                    stats.spans.saw(self.clock.now().since(begin));
                }
            }
            // Most replies fit the socket's buffer: no need to wait for it.
            if poll_fn(|cx| Poll::Ready(self.poll_write(cx))).await == Poll::Ready(Err(())) {
                return;
            }
            if self.session.closing {
                break;
            }
            self.rest();
        }
        self.goodbye().await;
    }

    /// Writes replies and reads more commands. A client that does not read its replies is read from
    /// until too many are unread.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.poll_write(cx) == Poll::Ready(Err(())) || passed(&mut self.unread, cx) {
            return Poll::Ready(Event::End);
        }
        if self.output.unwritten().len() >= UNREAD {
            return Poll::Pending;
        }
        if self.backlog {
            return Poll::Ready(Event::Bytes);
        }
        match self.poll_read(cx) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Event::End),
            Poll::Ready(Ok(_)) => Poll::Ready(Event::Bytes),
            Poll::Pending if passed(&mut self.arriving, cx) => Poll::Ready(Event::End),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let mut room = ReadBuf::new(self.input.room());
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut room);
        let count = room.filled().len();
        match read {
            Poll::Ready(Ok(())) => {
                self.input.fill(count);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.input.relax();
                Poll::Pending
            }
        }
    }

    /// Ready when all is written, or the connection is broken.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        while !self.output.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, self.output.unwritten()) {
                Poll::Ready(Ok(count @ 1..)) => {
                    self.output.wrote(count);
                    self.unread = None;
                }
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(())),
                Poll::Pending => {
                    self.unread.get_or_insert_with(|| Box::pin(sleep(UNREAD_TIME)));
                    return Poll::Pending;
                }
            }
        }
        // TLS may keep bytes back.
        Pin::new(&mut self.stream).poll_flush(cx).map_err(|_| ())
    }

    /// Releases the memory that only an active connection needs.
    fn rest(&mut self) {
        self.output.relax();
        self.parser.relax();
        self.input.relax();
        if self.input.is_empty() || self.backlog {
            self.arriving = None;
        } else if self.arriving.is_none() {
            self.arriving = Some(Box::pin(sleep(self.patience)));
        }
    }

    /// Runs all complete commands.
    async fn answer(&mut self) {
        let Connection { service, session, input, parser, output, arriving, backlog, .. } = self;
        output.ready();
        *backlog = true;
        while output.unwritten().len() < UNREAD && !session.closing {
            let bytes = input.filled();
            let length = match parser.parse(bytes, session.limits()) {
                Ok(Some(length)) => length,
                Ok(None) => {
                    *backlog = false;
                    break;
                }
                Err(error) => {
                    Reply::new(&mut output.bytes, session.protocol).error("ERR", error);
                    session.closing = true;
                    service.observer().port(Protocol::Resp).wrong();
                    break;
                }
            };
            *arriving = None;
            let mut taken = length;
            let command = parser.command(bytes);
            let traced = Traced::begin(session.tracer.as_deref(), command);
            let mut reply = Reply::new(&mut output.bytes, session.protocol);
            match session.step(service, command, &mut reply) {
                Step::Done => {}
                Step::Store(command) => {
                    taken += run(command, service, session, &bytes[length..], &mut reply).await;
                }
                // The future is boxed because transactions are rare, and a connection keeps memory
                // for the largest future that it awaits.
                Step::Exec(transaction) => {
                    Box::pin(exec(&transaction, service, session, &mut reply)).await;
                }
            }
            traced.end(reply.failure);
            parser.next();
            input.consume(taken);
        }
    }

    /// Writes the rest of the replies and closes the connection.
    async fn goodbye(mut self) {
        let written = timeout(UNREAD_TIME, poll_fn(|cx| self.poll_write(cx))).await;
        if matches!(written, Ok(Ok(()))) {
            let _ = self.stream.shutdown().await;
        }
    }
}

/// Runs the commands of a transaction, in order.
async fn exec(
    transaction: &Transaction,
    service: &Arc<Service>,
    session: &mut Session,
    reply: &mut Reply<'_>,
) {
    reply.array(transaction.count());
    let (mut parser, mut at) = (Parser::default(), 0);
    while let Some(length) = Transaction::next(&mut parser, transaction.from(at)) {
        let bytes = transaction.from(at);
        // Each command has its own failure.
        let reply = &mut Reply::new(reply.out, session.protocol);
        let step = session.step(service, parser.command(bytes), reply);
        at += length;
        if let Step::Store(command) = step {
            at += run(command, service, session, &bytes[length..], reply).await;
        }
        parser.next();
    }
}

/// Runs a command and, if it has to wait for the store, the commands after it at the same time.
/// Returns how many bytes of `behind` those have.
async fn run(
    command: StoreCommand<&[u8]>,
    service: &Arc<Service>,
    session: &mut Session,
    behind: &[u8],
    reply: &mut Reply<'_>,
) -> usize {
    let Action::Execute { rule, key, operation } = command.action else {
        // The future is boxed because it is large and these commands are rare.
        Box::pin(command.into_owned().run(service, reply)).await;
        return 0;
    };
    let format = command.format;
    // No future is made where that is possible: making one takes longer than a hit on memory.
    if let Some(decision) = service.try_now(&rule, key, operation) {
        format.write(&decision, key, reply);
        return 0;
    }
    let mut decision = pin!(service.execute(&rule, key, operation));
    let polled = poll_fn(|cx| Poll::Ready(decision.as_mut().poll(cx))).await;
    if let Poll::Ready(decision) = polled {
        write(format, &decision, key, reply);
        return 0;
    }
    let (mut waiting, taken) = gather(service, session, behind);
    let mut first = None;
    poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(decision) = decision.as_mut().poll(cx)
        {
            first = Some(decision);
        }
        ready!(waiting.poll(cx, first.is_none().then_some(key)));
        if first.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    if let Some(decision) = first {
        write(format, &decision, key, reply);
    }
    waiting.write(reply.out);
    taken
}

/// Starts the commands after one that waits. Returns them, and how many bytes they have.
fn gather(service: &Arc<Service>, session: &mut Session, bytes: &[u8]) -> (WaitingCommands, usize) {
    let (mut waiting, mut parser, mut taken) = (WaitingCommands::default(), Parser::default(), 0);
    while waiting.has_room() && !session.closing {
        let rest = &bytes[taken..];
        // Bytes that are not valid or not complete are left for later.
        let Ok(Some(length)) = parser.parse(rest, session.limits()) else { break };
        let command = parser.command(rest);
        if session.executes(command) {
            break;
        }
        let traced = Traced::begin(session.tracer.as_deref(), command);
        let mut reply = Reply::new(waiting.replies(), session.protocol);
        let step = session.step(service, command, &mut reply);
        if let Step::Store(command) = step {
            waiting.push(command.into_owned(), service, session.protocol, traced);
        }
        parser.next();
        taken += length;
    }
    (waiting, taken)
}

fn passed(timer: &mut Timer, cx: &mut Context<'_>) -> bool {
    timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready())
}

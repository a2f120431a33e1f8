//! One connection: what came is read, all of it answered, and the answers written at once.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};
use tollgate::{Clock, SystemClock};

use super::buffer::{Buffer, Output};
use super::flight::Flight;
use super::limits::{COMMAND_TIME, LAST_CALL, UNREAD, UNREAD_TIME};
use super::parser::Parser;
use super::question::{Question, What, tell};
use super::reply::{self, Reply};
use super::session::{Session, Step};
use super::transaction::Transaction;
use crate::net::{Draining, Stream};
use crate::observe::Protocol;
use crate::service::{Operation, Service};

pub(super) struct Connection {
    stream: Stream,
    service: Arc<Service>,
    clock: SystemClock,
    session: Session,
    input: Buffer,
    parser: Parser,
    output: Output,
    /// Complete commands may be left: too many answers were waiting to be read.
    backlog: bool,
    /// How long a command may take from its first byte to its last.
    patience: Duration,
    /// Ends a command that takes too long to arrive.
    arriving: Timer,
    /// Ends a client that does not read.
    unread: Timer,
}

type Timer = Option<Pin<Box<Sleep>>>;

/// Why reading came back.
enum Event {
    /// There is something to answer.
    Bytes,
    /// No more will come, or it is not worth waiting for.
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

    /// Waits that long for a command, if that is shorter than what is usual.
    pub(super) fn patient_for(mut self, patience: Duration) -> Connection {
        self.patience = self.patience.min(patience);
        self
    }

    /// Until the client goes, or the server.
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
                // Once is enough: the one who stops the server wakes this task, always the same,
                // and then it looks.
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
            // Most answers fit the socket: no need to wait for it.
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

    /// Writes what is to be written and reads if there may be more. A client that does not read its
    /// answers is read from until too many wait.
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

    /// Ready when all is written, or nothing ever will be.
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
        // What TLS keeps back.
        Pin::new(&mut self.stream).poll_flush(cx).map_err(|_| ())
    }

    /// Gives back what only a connection that talks needs.
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

    /// Answers all commands that are complete.
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
                    Reply { out: &mut output.bytes, protocol: session.protocol }
                        .error("ERR", error);
                    session.closing = true;
                    service.observer().port(Protocol::Resp).wrong();
                    break;
                }
            };
            *arriving = None;
            let mut taken = length;
            let (command, begin) = (parser.command(bytes), output.bytes.len());
            let traced = session.traced(command);
            match session.step(service, command, &mut output.bytes) {
                Step::Exec(transaction) => {
                    // Boxed: rare, and a connection keeps room for what it awaits.
                    Box::pin(exec(&transaction, service, session, &mut output.bytes)).await;
                }
                step => {
                    taken += run(step, service, session, &bytes[length..], &mut output.bytes).await;
                }
            }
            traced.end(&output.bytes[begin..]);
            parser.next();
            input.consume(taken);
        }
    }

    /// Writes the rest of the answers and closes the connection.
    async fn goodbye(mut self) {
        let written = timeout(UNREAD_TIME, poll_fn(|cx| self.poll_write(cx))).await;
        if matches!(written, Ok(Ok(()))) {
            let _ = self.stream.shutdown().await;
        }
    }
}

/// Answers a command and, if it has to wait for the store, commands behind it. Returns how many
/// bytes of `behind` these had.
async fn run(
    step: Step<'_>,
    service: &Arc<Service>,
    session: &mut Session,
    behind: &[u8],
    out: &mut Vec<u8>,
) -> usize {
    match step {
        Step::Ask(question) if !answered(&question, service, session.protocol, out) => {
            ask(question, service, session, behind, out).await
        }
        _ => 0,
    }
}

/// Runs the commands of a transaction, in order.
async fn exec(
    transaction: &Transaction,
    service: &Arc<Service>,
    session: &mut Session,
    out: &mut Vec<u8>,
) {
    Reply { out, protocol: session.protocol }.array(transaction.count());
    let (mut parser, mut at) = (Parser::default(), 0);
    while let Some(length) = Transaction::next(&mut parser, transaction.from(at)) {
        let bytes = transaction.from(at);
        let step = session.step(service, parser.command(bytes), out);
        at += length + run(step, service, session, &bytes[length..], out).await;
        parser.next();
    }
}

/// Answers a hit for which nobody has to be waited for, without a future. Whether it was one.
fn answered(
    question: &Question<&[u8]>,
    service: &Service,
    protocol: reply::Protocol,
    out: &mut Vec<u8>,
) -> bool {
    let What::Ask { bound, key, operation: Operation::Hit(cost) } = &question.what else {
        return false;
    };
    let Some(answer) = service.hit_now(bound, *key, *cost) else { return false };
    question.shape.tell(&answer, &mut Reply { out, protocol });
    true
}

/// Answers a question, and if that takes time, the commands behind it along with it. Comes back
/// with how many bytes of `behind` these had.
async fn ask(
    question: Question<&[u8]>,
    service: &Arc<Service>,
    session: &mut Session,
    behind: &[u8],
    out: &mut Vec<u8>,
) -> usize {
    let protocol = session.protocol;
    let What::Ask { bound, key, operation } = question.what else {
        // Seldom, and large.
        let said = Box::pin(question.owned().reply(Arc::clone(service), protocol)).await;
        out.extend_from_slice(&said);
        return 0;
    };
    let mut asked = pin!(service.ask(&bound, key, operation));
    let at_once = poll_fn(|cx| Poll::Ready(asked.as_mut().poll(cx))).await;
    if let Poll::Ready(answer) = at_once {
        tell(question.shape, &answer, &mut Reply { out, protocol });
        return 0;
    }
    let (mut flight, taken) = gather(service, session, behind);
    let mut first = None;
    poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(answer) = asked.as_mut().poll(cx)
        {
            first = Some(answer);
        }
        ready!(flight.poll(cx, first.is_none().then_some(key)));
        if first.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    if let Some(answer) = first {
        tell(question.shape, &answer, &mut Reply { out, protocol });
    }
    flight.land(out);
    taken
}

/// The commands behind one that waits, and how many bytes they have.
fn gather(service: &Arc<Service>, session: &mut Session, bytes: &[u8]) -> (Flight, usize) {
    let (mut flight, mut parser, mut taken) = (Flight::default(), Parser::default(), 0);
    while flight.has_room() && !session.closing {
        let rest = &bytes[taken..];
        // What is wrong or not complete is left for later.
        let Ok(Some(length)) = parser.parse(rest, session.limits()) else { break };
        let command = parser.command(rest);
        if session.executes(command) {
            break;
        }
        let traced = session.traced(command);
        if let Step::Ask(question) = session.step(service, command, flight.said()) {
            flight.ask(question.owned(), service, session.protocol, traced);
        }
        parser.next();
        taken += length;
    }
    (flight, taken)
}

fn passed(timer: &mut Timer, cx: &mut Context<'_>) -> bool {
    timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready())
}

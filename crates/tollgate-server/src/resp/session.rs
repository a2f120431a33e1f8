//! What is known of one client, and which command does what.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::auth::Auth;
use super::commands;
use super::handshake;
use super::limits::Limits;
use super::memo::{Memo, Numbers, Words};
use super::parser::Command;
use super::question::Question;
use super::reply::{Protocol, Reply};
use super::trace::Traced;
use super::transaction::Transaction;
use super::{native, throttle};
use crate::observe;
use crate::service::Service;
use crate::telemetry::Tracer;

/// One client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) auth: Arc<dyn Auth>,
    pub(super) id: u64,
    pub(super) peer: std::net::SocketAddr,
    pub(super) protocol: Protocol,
    pub(super) name: Box<[u8]>,
    pub(super) admitted: bool,
    /// After the answers of what was asked so far the connection ends.
    pub(super) closing: bool,
    pub(super) by_numbers: Memo<Numbers>,
    pub(super) by_words: Memo<Words>,
    /// Set between `MULTI` and `EXEC`.
    pub(super) transaction: Option<Box<Transaction>>,
    tracer: Option<Arc<Tracer>>,
}

/// What a command wants.
pub(super) enum Step<'a> {
    /// It is answered.
    Said,
    /// The store must be asked; the answer is written when it is there.
    Ask(Question<&'a [u8]>),
    /// The commands of a transaction are to be run.
    Exec(Box<Transaction>),
}

impl Session {
    pub(super) fn new(
        auth: Arc<dyn Auth>,
        peer: std::net::SocketAddr,
        tracer: Option<Arc<Tracer>>,
    ) -> Session {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let admitted = auth.is_open();
        Session {
            auth,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            peer,
            protocol: Protocol::Two,
            name: Box::default(),
            admitted,
            closing: false,
            by_numbers: Memo::default(),
            by_words: Memo::default(),
            transaction: None,
            tracer,
        }
    }

    /// Whether this command runs a transaction.
    pub(super) fn executes(&self, command: Command<'_, '_>) -> bool {
        let name = command.argument(0).unwrap_or_default();
        self.transaction.is_some() && name.eq_ignore_ascii_case(b"EXEC")
    }

    pub(super) fn limits(&self) -> &'static Limits {
        if self.admitted { &Limits::ADMITTED } else { &Limits::STRANGER }
    }

    /// The trace of a command that begins.
    #[inline]
    pub(super) fn traced(&self, command: Command<'_, '_>) -> Traced {
        Traced::begin(self.tracer.as_deref(), command)
    }

    /// Does what needs no store, and says what does.
    pub(super) fn step<'a>(
        &mut self,
        service: &Service,
        command: Command<'a, '_>,
        out: &mut Vec<u8>,
    ) -> Step<'a> {
        let begin = out.len();
        let step = self.decide(service, command, out);
        if let Step::Said = step {
            let answer = &out[begin..];
            count(service, answer);
            if answer.starts_with(b"-")
                && let Some(transaction) = &mut self.transaction
            {
                transaction.abort();
            }
        }
        step
    }

    fn decide<'a>(
        &mut self,
        service: &Service,
        command: Command<'a, '_>,
        out: &mut Vec<u8>,
    ) -> Step<'a> {
        let Some(name) = command.argument(0) else { return Step::Said };
        let mut upper = [0; 16];
        let Some(verb) = upper.get_mut(..name.len()) else {
            return self.unknown(name, command, out);
        };
        verb.copy_from_slice(name);
        verb.make_ascii_uppercase();
        if let (b"CL.THROTTLE", true, 5..) = (&*verb, self.admitted, command.len())
            && self.transaction.is_none()
        {
            let question = throttle::cell(self, service, command);
            return self.asked(question, out);
        }
        self.other(service, verb, command, out)
    }

    fn other<'a>(
        &mut self,
        service: &Service,
        verb: &[u8],
        command: Command<'a, '_>,
        out: &mut Vec<u8>,
    ) -> Step<'a> {
        let Some(known) = commands::find(verb) else { return self.unknown(verb, command, out) };
        if !self.admitted && !matches!(verb, b"AUTH" | b"HELLO" | b"QUIT" | b"RESET") {
            Reply { out, protocol: self.protocol }.error("NOAUTH", "Authentication required.");
            return Step::Said;
        }
        if !known.takes(command.len()) {
            let name = known.lower_name();
            let message = format!("wrong number of arguments for '{name}' command");
            Reply { out, protocol: self.protocol }.error("ERR", message);
            return Step::Said;
        }
        if self.transaction.is_some() && !runs_at_once(verb) {
            self.queue(command, out);
            return Step::Said;
        }
        match verb {
            b"MULTI" | b"EXEC" | b"DISCARD" | b"WATCH" | b"UNWATCH" => {
                self.transact(verb, &mut Reply { out, protocol: self.protocol })
            }
            b"CL.THROTTLE" => {
                let question = throttle::cell(self, service, command);
                self.asked(question, out)
            }
            b"THROTTLE" => {
                let question = throttle::crab(self, service, command);
                self.asked(question, out)
            }
            _ if verb.starts_with(b"TG.") => {
                let question = native::question(self, service, verb, command);
                self.asked(question, out)
            }
            _ => {
                handshake::answer(self, verb, command, out);
                Step::Said
            }
        }
    }

    fn queue(&mut self, command: Command<'_, '_>, out: &mut Vec<u8>) {
        let reply = &mut Reply { out, protocol: self.protocol };
        if self.transaction.as_mut().is_some_and(|transaction| transaction.queue(command)) {
            reply.simple("QUEUED");
        } else {
            reply.error("ERR", "the transaction is too large: at most 1 MiB of commands");
        }
    }

    fn transact<'a>(&mut self, verb: &[u8], reply: &mut Reply<'_>) -> Step<'a> {
        match (verb, self.transaction.take()) {
            (b"MULTI", None) => {
                self.transaction = Some(Box::default());
                reply.ok();
            }
            (b"EXEC", Some(transaction)) if !transaction.is_aborted() => {
                return Step::Exec(transaction);
            }
            (b"EXEC", Some(_)) => {
                reply.error("EXECABORT", "Transaction discarded because of previous errors.");
            }
            (b"EXEC", None) => reply.error("ERR", "EXEC without MULTI"),
            (b"DISCARD", None) => reply.error("ERR", "DISCARD without MULTI"),
            (b"MULTI" | b"WATCH", Some(transaction)) => {
                self.transaction = Some(transaction);
                reply.error("ERR", "MULTI and WATCH are not allowed inside MULTI");
            }
            // DISCARD, and WATCH and UNWATCH outside of a transaction: no key can be read here.
            _ => reply.ok(),
        }
        Step::Said
    }

    fn asked<'a>(
        &self,
        question: Result<Question<&'a [u8]>, crate::service::RequestError>,
        out: &mut Vec<u8>,
    ) -> Step<'a> {
        match question {
            Ok(question) => Step::Ask(question),
            Err(error) => {
                super::shape::error(&error, &mut Reply { out, protocol: self.protocol });
                Step::Said
            }
        }
    }

    fn unknown<'a>(
        &mut self,
        name: &[u8],
        command: Command<'a, '_>,
        out: &mut Vec<u8>,
    ) -> Step<'a> {
        let reply = &mut Reply { out, protocol: self.protocol };
        // A browser that somebody made talk to this port: its headers are not commands.
        if matches!(&name.to_ascii_uppercase()[..], b"POST" | b"HOST:") {
            self.closing = true;
        }
        let brief =
            |argument: &[u8]| argument[..argument.len().min(128)].escape_ascii().to_string();
        let arguments: Vec<_> = command
            .iter()
            .skip(1)
            .take(8)
            .map(|argument| format!("'{}'", brief(argument)))
            .collect();
        let arguments = arguments.join(" ");
        let name = brief(name);
        reply.error(
            "ERR",
            format!("unknown command '{name}', with args beginning with: {arguments}"),
        );
        Step::Said
    }
}

/// Commands that are not kept for `EXEC`.
fn runs_at_once(verb: &[u8]) -> bool {
    matches!(verb, b"MULTI" | b"EXEC" | b"DISCARD" | b"WATCH" | b"QUIT" | b"RESET")
}

/// Counts an answer that is an error: who is not admitted is refused, all else made no sense.
fn count(service: &Service, answer: &[u8]) {
    let stats = service.observer().port(observe::Protocol::Resp);
    if answer.starts_with(b"-NOAUTH ") || answer.starts_with(b"-WRONGPASS ") {
        stats.refuse();
    } else if answer.starts_with(b"-") {
        stats.wrong();
    }
}

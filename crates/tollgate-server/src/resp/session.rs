//! The state of one client, and the dispatch of its commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::auth::Auth;
use super::commands::{self, Handler};
use super::input_bounds::InputBounds;
use super::parser::Command;
use super::reply::{Failure, Protocol, Reply};
use super::reply_format;
use super::store_command::StoreCommand;
use super::transaction::{self, Transaction};
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
    /// Whether the connection ends after the replies to the commands so far.
    pub(super) closing: bool,
    /// Set between `MULTI` and `EXEC`.
    pub(super) transaction: Option<Box<Transaction>>,
    pub(super) tracer: Option<Arc<Tracer>>,
}

/// The work that is left after a command was dispatched.
pub(super) enum Step<'a> {
    /// Nothing: the reply is written.
    Done,
    /// An operation of the store, whose reply is not written yet.
    Store(StoreCommand<&'a [u8]>),
    /// The commands of a transaction.
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
            transaction: None,
            tracer,
        }
    }

    /// Whether this command runs a transaction.
    pub(super) fn executes(&self, command: Command<'_, '_>) -> bool {
        let name = command.argument(0).unwrap_or_default();
        self.transaction.is_some() && name.eq_ignore_ascii_case(b"EXEC")
    }

    pub(super) fn limits(&self) -> &'static InputBounds {
        if self.admitted { &InputBounds::ADMITTED } else { &InputBounds::STRANGER }
    }

    /// Runs a command as far as it needs no store, and counts its failure.
    pub(super) fn step<'a>(
        &mut self,
        service: &Service,
        command: Command<'a, '_>,
        reply: &mut Reply<'_>,
    ) -> Step<'a> {
        let step = self.dispatch(service, command, reply);
        if let (Step::Done, Some(failure)) = (&step, reply.failure) {
            let stats = service.observer().port(observe::Protocol::Resp);
            match failure {
                Failure::Unauthenticated => stats.refuse(),
                Failure::Invalid | Failure::Store => stats.wrong(),
            }
            if let Some(transaction) = &mut self.transaction {
                transaction.abort();
            }
        }
        step
    }

    fn dispatch<'a>(
        &mut self,
        service: &Service,
        command: Command<'a, '_>,
        reply: &mut Reply<'_>,
    ) -> Step<'a> {
        let Some(name) = command.argument(0) else { return Step::Done };
        let Some(spec) = commands::find(name) else {
            self.unknown(name, command, reply);
            return Step::Done;
        };
        if !self.admitted && !matches!(spec.name, "AUTH" | "HELLO" | "QUIT" | "RESET") {
            reply.error("NOAUTH", "Authentication required.");
        } else if !spec.takes(command.len()) {
            let name = spec.lower_name();
            reply.error("ERR", format!("wrong number of arguments for '{name}' command"));
        } else if let Some(transaction) = &mut self.transaction
            && !runs_in_transaction(spec.name)
        {
            match transaction.queue(command) {
                true => reply.simple("QUEUED"),
                false => {
                    let text = "the transaction is too large: at most 1 MiB of commands";
                    reply.error("ERR", text);
                }
            }
        } else {
            return match spec.handler {
                Handler::Store(parse) => match parse(service, command) {
                    Ok(command) => Step::Store(command),
                    Err(error) => {
                        reply_format::error(&error, reply);
                        Step::Done
                    }
                },
                Handler::Reply(run) => {
                    run(self, command, reply);
                    Step::Done
                }
                Handler::Exec => transaction::exec(self, reply).map_or(Step::Done, Step::Exec),
            };
        }
        Step::Done
    }

    fn unknown(&mut self, name: &[u8], command: Command<'_, '_>, reply: &mut Reply<'_>) {
        let upper = name.to_ascii_uppercase();
        // A web page made a browser connect to this port: the headers of the browser are not
        // commands.
        if matches!(&upper[..], b"POST" | b"HOST:") {
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
        let name = brief(if name.len() > LONGEST_NAME { name } else { &upper });
        reply.error(
            "ERR",
            format!("unknown command '{name}', with args beginning with: {arguments}"),
        );
    }
}

/// Unknown names of at most this many bytes are written in upper case.
const LONGEST_NAME: usize = 16;

/// Commands that are not kept for `EXEC`.
fn runs_in_transaction(name: &str) -> bool {
    matches!(name, "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "QUIT" | "RESET")
}

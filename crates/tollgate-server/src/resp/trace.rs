//! Traces of commands. Redis' protocol has no place for the trace of who asks, so each command
//! begins one.

use super::commands;
use super::parser::Command;
use crate::telemetry::{Span, Tracer};

/// A command under way. Boxed: a connection keeps room for one, and most have no trace.
#[derive(Debug, Default)]
pub(super) struct Traced(Option<Box<Span>>);

impl Traced {
    /// Nothing where there are no traces. Its name is one of those that are known: what clients
    /// make up has no end.
    #[inline]
    pub(super) fn begin(tracer: Option<&Tracer>, command: Command<'_, '_>) -> Traced {
        Traced(tracer.map(|tracer| {
            let known = command.argument(0).and_then(commands::find);
            let mut span = tracer.command(known.map_or("unknown", |known| known.name));
            span.note("network.protocol.name", "resp");
            Box::new(span)
        }))
    }

    /// It was answered with this.
    #[inline]
    pub(super) fn end(self, said: &[u8]) {
        if let Some(mut span) = self.0
            && said.starts_with(b"-STORE ")
        {
            span.failed("the store did not answer");
        }
    }
}

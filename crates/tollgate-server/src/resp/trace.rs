//! Traces of commands. Redis' protocol cannot carry the trace of the caller, so each command starts
//! one.

use super::commands;
use super::parser::Command;
use super::reply::Failure;
use crate::telemetry::{Span, Tracer};

/// The span of a command that runs. Boxed: a connection keeps room for one, and most have no trace.
#[derive(Debug, Default)]
pub(super) struct Traced(Option<Box<Span>>);

impl Traced {
    /// Begins a span; nothing without a tracer. The span has the name of a known command, because
    /// clients invent any number of others.
    #[inline]
    pub(super) fn begin(tracer: Option<&Tracer>, command: Command<'_, '_>) -> Traced {
        Traced(tracer.map(|tracer| {
            let spec = command.argument(0).and_then(commands::find);
            let mut span = tracer.command(spec.map_or("unknown", |spec| spec.name));
            span.note("network.protocol.name", "resp");
            Box::new(span)
        }))
    }

    /// Ends the span.
    #[inline]
    pub(super) fn end(self, failure: Option<Failure>) {
        if let Some(mut span) = self.0
            && failure == Some(Failure::Store)
        {
            span.failed("the store did not answer");
        }
    }
}

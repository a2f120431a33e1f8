//! Traces: a span for each request, sent to a collector by OTLP over HTTP.

use std::borrow::Cow;
use std::time::Duration;

use http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanKind, Status, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;

use super::client::Sender;
use crate::settings::TraceSettings;

/// How long the last spans may take when the server ends.
const FLUSH: Duration = Duration::from_secs(5);

/// Creates spans and sends them.
#[derive(Clone, Debug)]
pub struct Tracer {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// The span of one request. It ends when it is dropped.
#[derive(Debug)]
pub struct Span(opentelemetry_sdk::trace::Span);

impl Tracer {
    /// Sends to the collector of the settings on this runtime; `None` if no collector is set.
    ///
    /// # Errors
    /// When the URL of the collector is not valid.
    pub fn start(settings: &TraceSettings, runtime: Handle) -> Result<Option<Tracer>, String> {
        let Some(endpoint) = &settings.endpoint else { return Ok(None) };
        if !endpoint.starts_with("http://") {
            return Err(format!(
                "traces: endpoint {endpoint:?}: expected http://host:4318, a collector on this machine or beside it"
            ));
        }
        let wrong = |error: &dyn std::fmt::Display| format!("traces: {endpoint}: {error}");
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Sender::new(runtime))
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .map_err(|error| wrong(&error))?;
        let name = settings.service.clone();
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
                settings.sample,
            ))))
            .with_resource(
                Resource::builder().with_service_name(name).with_attribute(version).build(),
            )
            .build();
        let tracer = provider.tracer("tollgate");
        Ok(Some(Tracer { provider, tracer }))
    }

    /// A span for a request. It joins the trace that the headers name (`traceparent`).
    #[must_use]
    pub fn request(&self, name: impl Into<Cow<'static, str>>, headers: &HeaderMap) -> Span {
        let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Server);
        Span(self.tracer.build_with_context(builder, &parent))
    }

    /// A span for a command, which belongs to no trace.
    #[must_use]
    pub fn command(&self, name: &'static str) -> Span {
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Server);
        Span(self.tracer.build_with_context(builder, &Context::new()))
    }

    /// Sends the remaining spans and waits. Must not be called on a thread of the runtime.
    pub fn finish(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

impl Span {
    /// Adds an attribute; never a key, never a token.
    pub fn note(&mut self, name: &'static str, value: impl Into<opentelemetry::Value>) {
        self.0.set_attribute(KeyValue::new(name, value));
    }

    /// Marks the span as failed because of the server.
    pub fn failed(&mut self, what: impl Into<Cow<'static, str>>) {
        self.0.set_status(Status::error(what));
    }
}

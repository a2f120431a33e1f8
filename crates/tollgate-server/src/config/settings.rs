//! Reads sections of settings: the ports and the store.

use std::net::SocketAddr;

use super::section::Section;
use crate::grpc;
use crate::settings::{Address, Settings, StoreSettings};

/// `[server]`.
pub(crate) fn server(mut section: Section<'_>, settings: &mut Settings) {
    let mut port = |name, place: &mut Option<SocketAddr>| {
        if let Some(address) = section.value::<Address>(name) {
            *place = address.socket();
        }
    };
    port("http", &mut settings.http);
    port("grpc", &mut settings.grpc);
    port("resp", &mut settings.resp);
    port("admin", &mut settings.admin);
    section.put("threads", &mut settings.threads);
    section.end();
}

/// `[store]`.
pub(crate) fn store(mut section: Section<'_>, store: &mut StoreSettings) {
    section.put("url", &mut store.url);
    section.put_some("prefix", &mut store.prefix);
    section.put_some("deadline", &mut store.deadline);
    section.put_some("breaker_failures", &mut store.breaker_failures);
    section.put_some("breaker_pause", &mut store.breaker_pause);
    section.put_some("breaker_longest_pause", &mut store.breaker_longest_pause);
    section.put_some("remember_denials", &mut store.remember_denials);
    section.put_some("denials_for", &mut store.denials_for);
    section.put_some("charge_local", &mut store.charge_local);
    section.put_some("max_keys", &mut store.max_keys);
    section.put_some("max_limits", &mut store.max_limits);
    section.put("on_failure", &mut store.on_failure);
    section.end();
}

/// `[envoy]`.
pub(crate) fn envoy(mut section: Section<'_>, envoy: &mut grpc::Options) {
    section.put("headers", &mut envoy.headers);
    section.put("metadata", &mut envoy.metadata);
    section.put("problem", &mut envoy.problem);
    section.put("max_message", &mut envoy.max_message);
    section.put("max_descriptors", &mut envoy.max_descriptors);
    section.put("max_streams", &mut envoy.max_streams);
    section.put("max_header", &mut envoy.max_header);
    section.put("patience", &mut envoy.patience);
    section.put("keepalive", &mut envoy.keepalive);
    section.put_some("max_age", &mut envoy.max_age);
    section.end();
}

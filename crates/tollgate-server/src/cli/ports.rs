//! Opens ports from settings: addresses, certificates, tokens and bounds on connections.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use super::certificates::note_expiry;
use crate::auth::{ClientGate, Gates};
use crate::net::{Port, Room, Tls};
use crate::observe::Protocol;
use crate::service::Service;
use crate::settings::{ConnectionSettings, Settings};
use crate::telemetry::Tracer;

/// The address of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortAddress {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    pub(super) tls: bool,
}

/// The state that all ports share.
#[derive(Debug)]
pub(super) struct Ports<'a> {
    settings: &'a Settings,
    connections: &'a ConnectionSettings,
    service: &'a Arc<Service>,
    tracer: Option<Tracer>,
    pub(super) gates: Gates,
    /// The bounds on connections: one for HTTP, gRPC and RESP together, one for the admin port.
    rooms: [Arc<Room>; 2],
    /// The address of each port.
    pub(super) places: Vec<PortAddress>,
    /// Certificates to reload when their files change.
    pub(super) certificates: Vec<(Protocol, Arc<Tls>)>,
}

impl<'a> Ports<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        connections: &'a ConnectionSettings,
        service: &'a Arc<Service>,
        tracer: Option<Tracer>,
    ) -> Ports<'a> {
        let auth = &settings.auth;
        let gates = Gates::new(auth.tokens.clone(), auth.admin_tokens.clone());
        let rooms = [connections.most(), connections.most_admin()];
        Ports {
            settings,
            connections,
            service,
            tracer,
            gates,
            rooms: rooms.map(Room::new),
            places: Vec::new(),
            certificates: Vec::new(),
        }
    }

    /// Listens on the port, unless it is off.
    pub(super) async fn open(
        &mut self,
        protocol: Protocol,
    ) -> Result<Option<Port>, Box<dyn Error>> {
        let Some(address) = self.settings.address(protocol) else { return Ok(None) };
        let name = protocol.name();
        let tls = self.tls(protocol)?;
        let whose = usize::from(protocol == Protocol::Admin);
        let gate = self.gates.of(protocol);
        self.reachable(protocol, address, &gate, tls.as_deref())?;
        let connections = self.connections;
        let port = Port::bind(name, address, connections.grace).await.map_err(|error| {
            format!("{name}: cannot listen on {address}: {error}; --{name} moves it, --{name} off turns it off")
        })?;
        self.places.push(PortAddress { name, address: port.address()?, tls: tls.is_some() });
        if let Some(tls) = &tls {
            note_expiry(self.service, protocol, tls);
            self.certificates.push((protocol, Arc::clone(tls)));
        }
        let port = port
            .tls(tls, connections.handshake_timeout)
            .seats(self.rooms[whose].seats())
            .idle(connections.idle_timeout)
            .patient_for(connections.request_timeout)
            .guarded(gate)
            .counted(Arc::clone(self.service), protocol)
            .traced(self.tracer.clone());
        Ok(Some(port))
    }

    fn tls(&self, protocol: Protocol) -> Result<Option<Arc<Tls>>, String> {
        let protocols: &[&str] = match protocol {
            Protocol::Http | Protocol::Admin => &["h2", "http/1.1"],
            Protocol::Grpc => &["h2"],
            Protocol::Resp => &[],
        };
        let Some(files) = self.settings.tls.files(protocol)? else { return Ok(None) };
        let tls = Tls::load(files, protocols)
            .map_err(|error| format!("tls: {}: {error}", protocol.name()))?;
        Ok(Some(Arc::new(tls)))
    }

    /// A port that other machines can reach needs tokens, unless `allow_anonymous` is set.
    fn reachable(
        &self,
        protocol: Protocol,
        address: SocketAddr,
        gate: &ClientGate,
        tls: Option<&Tls>,
    ) -> Result<(), String> {
        let name = protocol.name();
        if address.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        let known = !gate.is_open() || tls.is_some_and(Tls::asks_clients);
        if !known && !self.settings.auth.allow_anonymous {
            let section =
                if protocol == Protocol::Admin { "auth.admin_tokens" } else { "auth.tokens" };
            return Err(format!(
                "{name}: {address} can be reached by other machines, and nobody there would have to show who it is. \
                 Ways out: a token ([{section}]; `tollgate token` makes one), certificates of clients ([tls] client_ca), \
                 an address of this machine alone (--{name} 127.0.0.1:{port}), or, where the network keeps strangers out, \
                 --allow-anonymous (allow_anonymous = true in [auth])",
                port = address.port()
            ));
        }
        if known && tls.is_none() {
            tracing::warn!(
                port = name,
                %address,
                "tokens go over the network in the clear: without [tls] whoever listens there has them"
            );
        }
        if !known {
            tracing::warn!(port = name, %address, "open to every machine that can reach it, as it was told");
        }
        Ok(())
    }
}

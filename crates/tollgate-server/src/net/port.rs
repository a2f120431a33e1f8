//! A listening port.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{Draining, Seat, Seats, Stream, Tls};
use crate::auth::ClientGate;
use crate::observe::{PortStats, Protocol};
use crate::service::Service;
use crate::telemetry::{Seldom, Tracer};

/// The pause when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(20);

/// Silence after which the system starts to probe the connection.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The default time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The default time for a request to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// A listening port.
#[derive(Debug)]
pub struct Port {
    name: &'static str,
    listener: TcpListener,
    grace: Duration,
    patience: Duration,
    manner: Manner,
    gate: Arc<ClientGate>,
    tracer: Option<Tracer>,
}

/// How connections are handled.
#[derive(Clone, Debug)]
struct Manner {
    tls: Option<Arc<Tls>>,
    handshake: Duration,
    idle: Option<Duration>,
    seats: Option<Seats>,
    counts: Option<(Arc<Service>, Protocol)>,
}

/// Counts an open connection until it is dropped.
struct Counted {
    counts: Option<(Arc<Service>, Protocol)>,
    _seat: Option<Seat>,
}

impl Port {
    /// Listens. `name` is the name of the port in the log.
    ///
    /// # Errors
    /// When the address is in use or not permitted.
    pub async fn bind(
        name: &'static str,
        address: SocketAddr,
        grace: Duration,
    ) -> io::Result<Port> {
        let listener = TcpListener::bind(address).await?;
        let manner =
            Manner { tls: None, handshake: HANDSHAKE, idle: None, seats: None, counts: None };
        let (patience, gate) = (PATIENCE, Arc::default());
        Ok(Port { name, listener, grace, patience, manner, gate, tracer: None })
    }

    /// Speaks TLS. A handshake may take this long.
    #[must_use]
    pub fn tls(mut self, tls: Option<Arc<Tls>>, handshake: Duration) -> Port {
        self.manner.tls = tls;
        self.manner.handshake = handshake;
        self
    }

    /// Bounds the number of connections.
    #[must_use]
    pub fn seats(mut self, seats: Seats) -> Port {
        self.manner.seats = Some(seats);
        self
    }

    /// Closes connections on which nothing arrives for this long.
    #[must_use]
    pub fn idle(mut self, timeout: Option<Duration>) -> Port {
        self.manner.idle = timeout;
        self
    }

    /// Sets how long a request may take to arrive.
    #[must_use]
    pub fn patient_for(mut self, patience: Duration) -> Port {
        self.patience = patience;
        self
    }

    /// How long a request may take to arrive.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Counts connections in the statistics of the service.
    #[must_use]
    pub fn counted(mut self, service: Arc<Service>, protocol: Protocol) -> Port {
        self.manner.counts = Some((service, protocol));
        self
    }

    /// Admits only clients with a token.
    #[must_use]
    pub fn guarded(mut self, gate: Arc<ClientGate>) -> Port {
        self.gate = gate;
        self
    }

    /// Sends traces of requests.
    #[must_use]
    pub fn traced(mut self, tracer: Option<Tracer>) -> Port {
        self.tracer = tracer;
        self
    }

    /// Whether the port speaks TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.manner.tls.is_some()
    }

    /// Whether clients must present a certificate.
    #[must_use]
    pub fn asks_clients(&self) -> bool {
        self.manner.tls.as_ref().is_some_and(|tls| tls.asks_clients())
    }

    /// The gate, which admits clients by their token.
    #[must_use]
    pub fn gate(&self) -> Arc<ClientGate> {
        Arc::clone(&self.gate)
    }

    /// The tracer, if there is one.
    #[must_use]
    pub fn tracer(&self) -> Option<Tracer> {
        self.tracer.clone()
    }

    /// The address of the port.
    ///
    /// # Errors
    /// When the system cannot tell the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Runs `handle` for each connection until it is time to stop. Then waits for open connections,
    /// for as long as the grace period lasts.
    pub async fn serve<F, T>(self, mut draining: Draining, handle: F)
    where
        F: Fn(Stream, SocketAddr, Draining) -> T + Send + Sync + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let handle = Arc::new(handle);
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = draining.begun() => break,
            };
            match accepted {
                Ok((socket, peer)) => {
                    self.take(socket, peer, &draining, &handle, &mut connections);
                }
                // The client closed the connection before it was accepted. The next one may be
                // waiting.
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    self.complain(&error);
                    tokio::time::sleep(PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
        // Connections that the system has already accepted are served.
        while let Some(Ok((socket, peer))) = self.listener.accept().now_or_never() {
            self.take(socket, peer, &draining, &handle, &mut connections);
        }
        drop(self.listener);
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, all).await.is_err() {
            tracing::warn!(
                port = self.name,
                "connections were still open after the grace period and are closed"
            );
        }
    }

    fn take<F, T>(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        draining: &Draining,
        handle: &Arc<F>,
        connections: &mut JoinSet<()>,
    ) where
        F: Fn(Stream, SocketAddr, Draining) -> T + Send + Sync + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let seat = match self.manner.seats.as_ref().map(|seats| seats.take(peer.ip())).transpose() {
            Ok(seat) => seat,
            Err(too_many) => return self.manner.refuse(self.name, &format!("too many {too_many}")),
        };
        let counted = Counted::new(self.manner.counts.clone(), seat);
        // Each response is one write, so Nagle's delay would not help.
        let _ = socket.set_nodelay(true);
        // Finds machines that vanished without closing their connections.
        let _ = SockRef::from(&socket)
            .set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE));
        let (draining, idle) = (draining.clone(), self.manner.idle);
        let handle = Arc::clone(handle);
        let Some(tls) = &self.manner.tls else {
            // The future is created inside the task. Moved into it, it would need its space twice
            // for each connection.
            connections.spawn(async move {
                handle(Stream::from(socket).idle_for(idle), peer, draining).await;
                drop(counted);
            });
            return;
        };
        let (tls, name, manner) = (Arc::clone(tls), self.name, self.manner.clone());
        connections.spawn(async move {
            // Boxed, so that the memory of the handshake is freed before requests are served.
            match Box::pin(tls.accept(socket, manner.handshake)).await {
                Ok(stream) => handle(Stream::from(stream).idle_for(idle), peer, draining).await,
                Err(error) => manner.refuse(name, &format!("no TLS: {error}")),
            }
            drop(counted);
        });
    }

    fn complain(&self, error: &io::Error) {
        static SELDOM: Seldom = Seldom::new();
        if let Some(suppressed) = SELDOM.may() {
            tracing::warn!(port = self.name, %error, suppressed, "a connection could not be accepted");
        }
    }
}

impl Manner {
    fn refuse(&self, port: &'static str, reason: &str) {
        static SELDOM: Seldom = Seldom::new();
        if let Some((service, protocol)) = &self.counts {
            service.observer().port(*protocol).refuse();
        }
        if let Some(suppressed) = SELDOM.may() {
            tracing::warn!(port, reason, suppressed, "a connection was refused");
        }
    }
}

impl Counted {
    fn new(counts: Option<(Arc<Service>, Protocol)>, seat: Option<Seat>) -> Counted {
        let counted = Counted { counts, _seat: seat };
        counted.with(PortStats::open);
        counted
    }

    fn with(&self, count: impl Fn(&PortStats)) {
        if let Some((service, protocol)) = &self.counts {
            count(service.observer().port(*protocol));
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.with(PortStats::close);
    }
}

fn is_of_the_client(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}

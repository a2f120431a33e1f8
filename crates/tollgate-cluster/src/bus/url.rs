//! A bus by URL.

use tollgate::Error;

use super::{Bus, InMemory, Line};
use crate::replicated::Actor;

/// Any bus of this crate, for programs that read from their configuration which one to use.
///
/// See [`open`].
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyBus {
    /// A bus within this process.
    InMemory(InMemory),
    /// NATS.
    #[cfg(feature = "nats")]
    Nats(super::Nats),
    /// Redis or Valkey.
    #[cfg(feature = "redis")]
    Redis(Box<super::RedisPubSub>),
}

/// The bus of a URL: `nats://`, `tls://` (NATS with TLS), `redis://`, `rediss://`. The prefix of
/// its subjects or channels follows a `#`: `nats://127.0.0.1:4222#shop`.
///
/// # Errors
/// When the scheme is unknown or was not compiled in.
///
/// ```
/// let error = tollgate_cluster::bus::open("carrier-pigeon://roof").unwrap_err();
/// assert!(error.to_string().contains("nats://"));
/// ```
pub fn open(url: &str) -> Result<AnyBus, Error> {
    let (address, prefix) = match url.split_once('#') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (url, None),
    };
    let _ = prefix;
    match address.split_once("://").map(|(scheme, _)| scheme) {
        #[cfg(feature = "nats")]
        Some("nats" | "tls") => {
            let bus = super::Nats::new(address)?;
            Ok(AnyBus::Nats(match prefix {
                Some(prefix) => bus.prefix(prefix),
                None => bus,
            }))
        }
        #[cfg(feature = "redis")]
        Some("redis" | "rediss" | "valkey" | "valkeys" | "redis+unix") => {
            let bus = super::RedisPubSub::new(address)?;
            Ok(AnyBus::Redis(Box::new(match prefix {
                Some(prefix) => bus.prefix(prefix),
                None => bus,
            })))
        }
        scheme => Err(Error::request(format!(
            "{}: a bus is nats://, tls://, redis:// or rediss://, if its feature is enabled",
            scheme.unwrap_or("no scheme")
        ))),
    }
}

impl Bus for AnyBus {
    fn join(self, actor: Actor) -> Line {
        match self {
            AnyBus::InMemory(bus) => bus.join(actor),
            #[cfg(feature = "nats")]
            AnyBus::Nats(bus) => bus.join(actor),
            #[cfg(feature = "redis")]
            AnyBus::Redis(bus) => bus.join(actor),
        }
    }
}

//! Memcached as cells: a value under a name, with the CAS number of the item as its version.

use std::sync::Arc;

use tollgate::algorithm::{Aging, AnyMachine, Op};
use tollgate::{Clock, Error, KeyRef, Limit, SystemClock};
use tollgate_cas::{Cell, Cells, Change, Name, Swap, Swapped};

use crate::command::{self, Expected};
use crate::connection::Connection;
use crate::dump;
use crate::name::Names;
use crate::reply::{Flags, Reply};
use crate::server::{Server, answer, unexpected};
use crate::target::Lanes;

/// The most bytes that an item takes besides its name and value.
const ITEM: usize = 128;

/// Items deleted in one step.
const SLICE: usize = 1000;

/// One server or several, each with its own keys.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) names: Names,
    pub(crate) lanes: Lanes,
    pub(crate) servers: Box<[Server]>,
    pub(crate) clock: SystemClock,
}

/// The CAS number of an item, and the connection on which it was read. A restarted server counts
/// from one again, so the same number may mean another item; but then the connection has broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    connection: u64,
    cas: u64,
}

impl Servers {
    fn server(&self, name: &Name) -> Result<&Server, Error> {
        let lane = name.lane();
        self.servers.get(lane).ok_or_else(|| Error::request(format!("no server {lane}")))
    }

    async fn put(
        &self,
        connection: &Connection,
        swap: &Swap<'_, Version>,
        (value, ttl): (&[u8], u64),
        sure: bool,
    ) -> Result<Swapped<Version>, Error> {
        let name = swap.name.bytes();
        let size = name.len() + value.len() + ITEM;
        if size > connection.largest {
            // The server would reject the value and remove the existing item.
            return Err(Error::store(
                format!(
                    "key {}: a state of {} bytes, the server takes items up to {}; it takes larger ones with -I",
                    swap.name,
                    value.len(),
                    connection.largest
                ),
                false,
            ));
        }
        let expected =
            swap.expected.map_or(Expected::Nothing, |version| Expected::Cas(version.cas));
        let set = |out: &mut Vec<u8>, opaque| {
            command::set(out, name, value, ttl, expected, opaque);
        };
        let (swapped, seen) = if sure {
            let [swapped] = connection.send([&set])?;
            (answer(swapped).await?, None)
        } else {
            let get = |out: &mut Vec<u8>, opaque| command::get(out, name, opaque);
            let [swapped, seen] = connection.send([&set, &get])?;
            (answer(swapped).await?, Some(seen))
        };
        match (swapped, seen) {
            (Reply::Done(flags), _) => Ok(Swapped::Done(vec![Some(version(connection, flags)?)])),
            (Reply::Nothing(_), _) => Ok(Swapped::Lost(Some(vec![None]))),
            (Reply::NotStored(_), None) => Ok(Swapped::Lost(None)),
            (Reply::NotStored(_), Some(seen)) => {
                let seen = cell(connection, answer(seen).await?)?;
                Ok(Swapped::Lost(Some(vec![seen])))
            }
            (other, _) => Err(unexpected(&other)),
        }
    }
}

fn version(connection: &Connection, flags: Flags) -> Result<Version, Error> {
    let cas = flags.cas.filter(|cas| *cas > 0);
    let number = |cas| Version { connection: connection.number, cas };
    cas.map(number).ok_or_else(|| Error::store("the server reports no version of an item", false))
}

fn cell(connection: &Connection, reply: Reply) -> Result<Option<Cell<Version>>, Error> {
    match reply {
        Reply::Value(value, flags) => {
            Ok(Some(Cell { value, version: version(connection, flags)? }))
        }
        Reply::Nothing(_) => Ok(None),
        other => Err(unexpected(&other)),
    }
}

impl Cells for Servers {
    type Version = Version;

    const TOGETHER: bool = false;

    fn holds(&self, limit: &Limit) -> Result<(), Error> {
        let (machine, now) = (AnyMachine::new(limit), self.clock.now());
        let mut state = None;
        let _ = machine.apply(&mut state, now, Op::Hit(machine.capacity()));
        let keep = machine.fresh_at(state.as_ref()).map(|fresh| fresh.since(now));
        let keep = keep.unwrap_or_default().max(limit.period());
        if machine.aging() == Aging::Never {
            static WARNED: std::sync::Once = std::sync::Once::new();
            WARNED.call_once(|| {
                tracing::warn!(
                    "Memcached evicts items and loses all of them in a restart: a budget on it may \
                     be given out again"
                );
            });
        }
        if command::holds(keep, now) {
            return Ok(());
        }
        let years = keep.as_secs() / (365 * 24 * 3600);
        Err(Error::unsupported(
            limit,
            format!(
                "it must be kept for {years} years, and Memcached knows no time after January 2038; Redis does"
            ),
        ))
    }

    fn place(&self, namespace: &str, limit: Option<&Limit>) -> Vec<u8> {
        self.names.place(namespace, limit.map(Limit::identity).as_deref())
    }

    fn name(&self, place: &[u8], key: KeyRef<'_>) -> Vec<u8> {
        self.names.name(place, key)
    }

    fn lane(&self, key: KeyRef<'_>) -> usize {
        self.lanes.of(key)
    }

    async fn read(&self, names: &[Name]) -> Result<Vec<Option<Cell<Version>>>, Error> {
        let mut cells = Vec::with_capacity(names.len());
        for name in names {
            let connection = self.server(name)?.connection().await?;
            let get = |out: &mut Vec<u8>, opaque| command::get(out, name.bytes(), opaque);
            let [pending] = connection.send([&get])?;
            cells.push(cell(&connection, answer(pending).await?)?);
        }
        Ok(cells)
    }

    async fn swap(
        &self,
        swaps: &[Swap<'_, Version>],
        sure: bool,
    ) -> Result<Swapped<Version>, Error> {
        let [swap] = swaps else {
            return Err(Error::request(format!("{} cells: one at a time", swaps.len())));
        };
        let connection: Arc<Connection> = self.server(swap.name)?.connection().await?;
        if swap.expected.is_some_and(|version| version.connection != connection.number) {
            return Ok(Swapped::Lost(None));
        }
        match swap.change {
            Change::Keep => Ok(Swapped::Done(vec![swap.expected])),
            Change::Put { value, keep } => {
                let ttl = command::ttl(keep, self.clock.now());
                self.put(&connection, swap, (value, ttl), sure).await
            }
            Change::Delete => {
                let Some(version) = swap.expected else { return Ok(Swapped::Done(vec![None])) };
                let delete = |out: &mut Vec<u8>, opaque| {
                    command::delete(out, swap.name.bytes(), Some(version.cas), opaque);
                };
                let [pending] = connection.send([&delete])?;
                match answer(pending).await? {
                    Reply::Done(_) => Ok(Swapped::Done(vec![None])),
                    Reply::Nothing(_) => Ok(Swapped::Lost(Some(vec![None]))),
                    Reply::NotStored(_) => Ok(Swapped::Lost(None)),
                    other => Err(unexpected(&other)),
                }
            }
        }
    }

    /// Memcached cannot list names by prefix: it lists all, on a separate connection.
    async fn forget(&self, place: &[u8]) -> Result<(), Error> {
        for server in &self.servers {
            let mut listed = dump::list(&server.way).await?;
            loop {
                let names = listed.next(place, SLICE).await?;
                if names.is_empty() {
                    break;
                }
                let connection = server.connection().await?;
                let mut pending = Vec::with_capacity(names.len());
                for name in &names {
                    let delete =
                        |out: &mut Vec<u8>, opaque| command::delete(out, name, None, opaque);
                    pending.extend(connection.send([&delete])?);
                }
                for pending in pending {
                    match answer(pending).await? {
                        Reply::Done(_) | Reply::Nothing(_) => {}
                        other => return Err(unexpected(&other)),
                    }
                }
            }
        }
        Ok(())
    }

    async fn check(&self) -> Result<(), Error> {
        for server in &self.servers {
            server.check().await?;
        }
        Ok(())
    }

    fn suspect(&self) {
        self.servers.iter().for_each(Server::suspect);
    }
}

//! Bounds on the number of connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// The most connections on all ports that share the room.
    pub all: usize,
    /// The most connections on each of these ports.
    pub port: Option<usize>,
    /// The most connections from one address. An IPv6 /64 counts as one address, because one
    /// customer has all of it.
    pub peer: Option<usize>,
}

/// Counts connections for several ports together.
#[derive(Debug)]
pub struct Room {
    most: Most,
    taken: AtomicUsize,
    peers: Mutex<HashMap<IpAddr, usize>>,
}

/// The bounds of one port.
#[derive(Clone, Debug)]
pub struct Seats {
    room: Arc<Room>,
    taken: Arc<AtomicUsize>,
}

/// The permit of one connection, returned when dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Seats,
    /// The address of the client, only set where connections are counted by address.
    peer: Option<IpAddr>,
}

impl Room {
    /// A room with these bounds.
    #[must_use]
    pub fn new(most: Most) -> Arc<Room> {
        Arc::new(Room { most, taken: AtomicUsize::new(0), peers: Mutex::default() })
    }

    /// The bounds of one more port.
    #[must_use]
    pub fn seats(self: &Arc<Self>) -> Seats {
        Seats { room: Arc::clone(self), taken: Arc::default() }
    }
}

impl Seats {
    /// A permit for a connection from this address.
    ///
    /// # Errors
    /// Reserves a seat; the error names the bound that was reached.
    pub fn take(&self, from: IpAddr) -> Result<Seat, &'static str> {
        let Most { all, port, peer } = self.room.most;
        if !up(&self.room.taken, all) {
            return Err("connections on all ports");
        }
        if !up(&self.taken, port.unwrap_or(usize::MAX)) {
            down(&self.room.taken);
            return Err("connections on this port");
        }
        // From here on, dropping the permit returns what was taken.
        let mut seat = Seat { seats: self.clone(), peer: None };
        if let Some(most) = peer {
            let from = one_peer(from);
            let mut peers = self.room.peers.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = peers.entry(from).or_default();
            if *taken >= most {
                drop(peers);
                return Err("connections from one address");
            }
            *taken += 1;
            seat.peer = Some(from);
        }
        Ok(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        down(&self.seats.taken);
        down(&self.seats.room.taken);
        let Some(peer) = self.peer else { return };
        let mut peers = self.seats.room.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = peers.get_mut(&peer) {
            *taken -= 1;
            if *taken == 0 {
                peers.remove(&peer);
            }
        }
    }
}

fn up(taken: &AtomicUsize, most: usize) -> bool {
    let more = |taken| (taken < most).then_some(taken + 1);
    taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

fn down(taken: &AtomicUsize) {
    taken.fetch_sub(1, Ordering::Relaxed);
}

fn one_peer(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn permits_are_bounded_and_returned() {
        let room = Room::new(Most { all: 3, port: Some(2), peer: None });
        let (one, other) = (room.seats(), room.seats());
        let here = address("127.0.0.1");
        let first = one.take(here).unwrap();
        let second = one.take(here).unwrap();
        assert_eq!(one.take(here).unwrap_err(), "connections on this port");
        let third = other.take(here).unwrap();
        assert_eq!(other.take(here).unwrap_err(), "connections on all ports");
        drop(first);
        let fourth = other.take(here).unwrap();
        drop((second, third, fourth));
        assert_eq!(room.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn connections_of_one_address_are_bounded_and_forgotten() {
        let room = Room::new(Most { all: 10, port: None, peer: Some(1) });
        let seats = room.seats();
        let held = [seats.take(address("2001:db8::1")), seats.take(address("192.0.2.1"))];
        assert!(held.iter().all(Result::is_ok));
        for same in ["2001:db8::2", "::ffff:192.0.2.1", "192.0.2.1"] {
            assert_eq!(seats.take(address(same)).unwrap_err(), "connections from one address");
        }
        assert!(seats.take(address("2001:db8:0:1::1")).is_ok());
        drop(held);
        assert!(seats.take(address("192.0.2.1")).is_ok());
        assert!(room.peers.lock().unwrap().is_empty());
        assert_eq!(room.taken.load(Ordering::Relaxed), 0);
    }
}

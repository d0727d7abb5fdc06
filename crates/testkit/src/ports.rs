//! TCP ports for servers that a test starts as processes, or stops and starts again.
//!
//! A port that was bound to 0 and released is free for any other bind to 0 and for outgoing
//! connections, also before the server listens on it. The ports here are below the range from which
//! the system takes those (32768 upwards on Linux), and a process hands out each only once at a
//! time.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use parking_lot::Mutex;

const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 22_000;
/// Ports that are tried for one reservation; far more than tests and other programs ever hold.
const ATTEMPTS: u16 = 1_000;

static RESERVED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A loopback port that no other reservation of this process has while this value lives.
#[derive(Debug)]
pub struct ReservedPort(u16);

impl ReservedPort {
    /// Reserves a port on which nothing listens.
    ///
    /// # Panics
    ///
    /// If none is found.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "reserving is an effect, not a default")]
    pub fn new() -> ReservedPort {
        // Random, so that concurrent processes rarely try the same ports.
        let start = RandomState::new().hash_one(std::process::id()) % u64::from(PORTS);
        let start = u16::try_from(start).expect("less than PORTS");
        let candidates = (0..ATTEMPTS).map(|n| FIRST_PORT + (start + n) % PORTS);
        let mut reserved = RESERVED.lock();
        let port = candidates.into_iter().find(|port| !reserved.contains(port) && is_free(*port));
        let port = port.unwrap_or_else(|| panic!("no free port in {ATTEMPTS} attempts"));
        reserved.insert(port);
        ReservedPort(port)
    }

    /// Returns the number of the port.
    pub fn number(&self) -> u16 {
        self.0
    }

    /// Returns the address on the loopback interface.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.0))
    }
}

impl Drop for ReservedPort {
    fn drop(&mut self) {
        RESERVED.lock().remove(&self.0);
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_differ_until_they_are_dropped() {
        let held: Vec<_> = (0..50).map(|_| ReservedPort::new()).collect();
        let numbers: BTreeSet<_> = held.iter().map(ReservedPort::number).collect();
        assert_eq!(numbers.len(), held.len());
        let ephemeral = 32_768;
        assert!(numbers.iter().all(|port| (FIRST_PORT..ephemeral).contains(port)), "{numbers:?}");
        let listener = TcpListener::bind(held[0].address()).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
        drop(held);
        assert_eq!(*RESERVED.lock(), BTreeSet::new());
    }
}

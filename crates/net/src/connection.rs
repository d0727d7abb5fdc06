//! The connection of a request, as handlers see it.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::{EvictingLimit, SendBudget};
use crate::listen::LocalAddr;

/// The work that takes over a connection after an HTTP/1 upgrade.
pub(crate) type UpgradedWork = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection, as its requests see it.
#[derive(Debug)]
pub struct Connection {
    /// The address of the client.
    pub remote: RemoteAddr,
    /// The local address of the connection.
    pub local: Option<LocalAddr>,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The common name in the verified certificate of the client, if one was required. May be
    /// empty.
    pub common_name: Option<Arc<str>>,
    /// The bytes that were answered and are not sent yet.
    pub send_budget: Arc<SendBudget>,
    upgrade: UpgradeSlot,
}

/// Holds the work of an upgrade between the handler and the task of the connection.
#[derive(Default)]
struct UpgradeSlot(Mutex<Option<UpgradedWork>>);

impl fmt::Debug for UpgradeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpgradeSlot")
    }
}

impl Connection {
    /// Creates a connection with an empty send budget of its own.
    pub fn new(remote: RemoteAddr, tls: bool) -> Self {
        Self {
            remote,
            local: None,
            tls,
            common_name: None,
            send_budget: Arc::default(),
            upgrade: UpgradeSlot::default(),
        }
    }

    /// Returns the same connection for the protocol inside an upgrade. Shares the send budget.
    #[must_use]
    pub fn for_upgraded(&self) -> Self {
        let Self { remote, tls, .. } = *self;
        let local = self.local.clone();
        let (common_name, send_budget) = (self.common_name.clone(), Arc::clone(&self.send_budget));
        Self { remote, local, tls, common_name, send_budget, upgrade: UpgradeSlot::default() }
    }

    /// Sets the work that runs after the response to this request, which must be 101, was sent. The
    /// connection lives until the work ends, and is cut if a drain times out before.
    pub fn on_upgrade(&self, work: impl Future<Output = ()> + Send + 'static) {
        *self.upgrade.0.lock() = Some(Box::pin(work));
    }

    /// Closes the connection, whatever is in flight: for handlers that find that the client does
    /// not read.
    pub fn cut(&self) {
        self.send_budget.evict();
    }

    /// Returns whether the connection is being cut.
    pub fn is_cut(&self) -> bool {
        self.send_budget.is_evicted()
    }

    pub(crate) fn take_upgrade(&self) -> Option<UpgradedWork> {
        self.upgrade.0.lock().take()
    }

    /// Replaces the send budget by one that shares `send_limit` with other connections.
    #[must_use]
    pub(crate) fn with_send_limit(self, send_limit: &Arc<EvictingLimit>) -> Self {
        Self { send_budget: Arc::new(SendBudget::with_total(send_limit)), ..self }
    }

    /// Sets the local address.
    #[must_use]
    pub fn with_local(self, local: Option<LocalAddr>) -> Self {
        Self { local, ..self }
    }

    /// Sets the common name of the client's certificate.
    #[must_use]
    pub fn with_common_name(self, common_name: Option<Arc<str>>) -> Self {
        Self { common_name, ..self }
    }
}

/// The address of the client of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteAddr {
    /// Over TCP.
    Tcp(SocketAddr),
    /// Over a unix socket, where clients have no address.
    Unix,
}

/// Prints the address as Go prints that of a peer.
impl fmt::Display for RemoteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // An IPv4 client of a dual-stack socket has an IPv4-mapped address.
            Self::Tcp(address) => {
                SocketAddr::new(address.ip().to_canonical(), address.port()).fmt(f)
            }
            Self::Unix => f.write_str("@"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_address_is_printed_as_in_go() {
        let of = |text: &str| RemoteAddr::Tcp(text.parse().unwrap()).to_string();
        assert_eq!(of("127.0.0.1:5000"), "127.0.0.1:5000");
        assert_eq!(of("[::ffff:127.0.0.1]:5000"), "127.0.0.1:5000");
        assert_eq!(of("[::1]:5000"), "[::1]:5000");
        assert_eq!(RemoteAddr::Unix.to_string(), "@");
    }
}

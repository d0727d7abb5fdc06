//! What a handler may know of the connection that a request came over.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use crate::crowd::Crowd;
use crate::unsent::Unsent;

/// What is done with a connection that speaks something else than HTTP from now on.
pub(crate) type Switched = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection, as its requests see it.
#[derive(Debug)]
pub struct Connection {
    /// Who is at the other end.
    pub peer: Peer,
    /// Where it reached this end, over TCP.
    pub local: Option<SocketAddr>,
    /// Whether it is encrypted.
    pub tls: bool,
    /// The name in the certificate of the client, if it had to show one and that was verified. May be empty.
    pub common_name: Option<Arc<str>>,
    /// What was answered, and not sent yet.
    pub unsent: Arc<Unsent>,
    switched: Slot,
}

/// Where a handler leaves what is to be done.
#[derive(Default)]
struct Slot(Mutex<Option<Switched>>);

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

impl Connection {
    /// A connection that nothing was answered on yet.
    pub fn new(peer: Peer, tls: bool) -> Self {
        Self {
            peer,
            local: None,
            tls,
            common_name: None,
            unsent: Arc::default(),
            switched: Slot::default(),
        }
    }

    /// The same for what is spoken within it once it is no HTTP any more.
    #[must_use]
    pub fn within(&self) -> Self {
        let Self { peer, local, tls, .. } = *self;
        let (common_name, unsent) = (self.common_name.clone(), Arc::clone(&self.unsent));
        Self { peer, local, tls, common_name, unsent, switched: Slot::default() }
    }

    /// What to do once the response, which has to be 101, has gone out: the connection is HTTP/1 no more. It lasts until that is done, and is cut when the
    /// listener ends and it is not.
    pub fn switch(&self, work: impl Future<Output = ()> + Send + 'static) {
        *self.switched.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(work));
    }

    /// Ends it, whatever is under way: for who finds that the other end takes nothing.
    pub fn cut(&self) {
        self.unsent.give_up();
    }

    /// Whether somebody did.
    pub fn is_cut(&self) -> bool {
        self.unsent.is_given_up()
    }

    /// What is to be done, if anything.
    pub(crate) fn switched(&self) -> Option<Switched> {
        self.switched.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The same, of which what is unsent counts among that of others.
    #[must_use]
    pub(crate) fn among(self, total: &Arc<Crowd>) -> Self {
        Self { unsent: Arc::new(Unsent::among(total)), ..self }
    }

    /// The same, that reached this end there.
    #[must_use]
    pub fn with_local(self, local: Option<SocketAddr>) -> Self {
        Self { local, ..self }
    }

    /// The same, of a client with a certificate.
    #[must_use]
    pub fn with_common_name(self, common_name: Option<Arc<str>>) -> Self {
        Self { common_name, ..self }
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over TCP.
    Tcp(SocketAddr),
    /// Over a unix socket, where clients have no address.
    Unix,
}

/// As Go prints the address of a peer.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A connection over IPv4 to a socket of both families.
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
    fn a_peer_is_printed_as_in_go() {
        let of = |text: &str| Peer::Tcp(text.parse().unwrap()).to_string();
        assert_eq!(of("127.0.0.1:5000"), "127.0.0.1:5000");
        assert_eq!(of("[::ffff:127.0.0.1]:5000"), "127.0.0.1:5000");
        assert_eq!(of("[::1]:5000"), "[::1]:5000");
        assert_eq!(Peer::Unix.to_string(), "@");
    }
}

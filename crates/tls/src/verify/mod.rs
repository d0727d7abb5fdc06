//! The verification of clients and servers.

pub(crate) mod client_verifier;
pub(crate) mod host_match;
pub(crate) mod peer_certificate;
pub(crate) mod server_verifier;

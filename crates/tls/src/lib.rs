//! From files and settings to what a TLS handshake needs.
//!
//! ```text
//!   --cert-file a.pem --key-file a.key --trusted-ca-file ca.pem --client-crl-file ca.crl        Info: as meant, nothing read yet
//!                  │
//!                  ▼  ServerTls::load: read, checked, an error names the file and the reason
//!   Generation 1   certificate of a.pem until 2027-03-01, clients of ca.pem but for serials 4f, 7a, keys of tickets
//!                  │
//!                  ▼  ServerTls::current, at each handshake: a.pem and a.key are others than before
//!   Generation 2   certificate of a.pem until 2028-03-01, ...
//! ```
//!
//! That is for those who call us. Those whom we call ourselves are judged by a [`ClientTls`]: the same files, read and watched in the same way.
//!
//! A handshake takes the [`Generation`] of the moment it begins, runs with its [`config`](Generation::config), and is then looked at once more
//! ([`ServerTls::admit`]): whether the certificate of the client was revoked, or has expired since the session began that is resumed; and which
//! name is in it.
//!
//! What is always true:
//!
//! - What is served was sound when it was read: the key belongs to the certificate, and all that was asked for is there. Files that became
//!   bad while the server runs change nothing, and are told of.
//! - The first handshake after a change of a file sees it.
//! - A session is resumed only within a generation, so whoever is not trusted any more cannot come back with an old ticket.
//! - Files have a longest length ([`FILE_BYTES_MAX`]).
//!
//! # Left to others
//!
//! No sockets and no runtime: `net` speaks TLS with what is made here, and bounds how long and how many at a time. `node` knows flags.

mod info;
mod suites;

mod crl;
mod files;
mod identity;
mod sources;
mod trust;

mod names;
mod peer;
mod server_verifier;
mod verifier;

mod generation;
mod kept;

mod client_tls;
mod server_tls;

mod auto;
mod error;
mod metrics;
mod reason;

pub use auto::{SelfSignedError, VALIDITY_YEARS_MAX, generate_self_signed};
pub use client_tls::{ClientTls, InvalidServerName};
pub use error::LoadError;
pub use files::FILE_BYTES_MAX;
pub use generation::Generation;
pub use info::{Info, Protocol, Version, Versions};
pub use metrics::Metrics;
pub use peer::{PeerCertificate, Rejected, Rejection};
pub use reason::reason;
pub use server_tls::ServerTls;
pub use suites::{CipherSuiteError, CipherSuites};

pub use rustls;

//! TLS configurations from files and settings, reloaded when the files change.
//!
//! ```text
//!   --cert-file a.pem --key-file a.key --trusted-ca-file ca.pem --client-crl-file ca.crl     Info
//!                        │
//!                        ▼  ServerTls::load: reads and checks; errors name the file and the reason
//!   ServerGeneration 1   certificate a.pem until 2027-03-01, CA ca.pem, revoked 4f 7a, ticket keys
//!                        │
//!                        ▼  ServerTls::current, at each handshake: a.pem and a.key have changed
//!   ServerGeneration 2   certificate a.pem until 2028-03-01, ..
//! ```
//!
//! [`ServerTls`] is for accepted connections. [`ClientTls`] is for outgoing ones, with the same
//! kinds of files, reloaded in the same way.
//!
//! A handshake uses the [`ServerGeneration`] that is current when it begins, with its
//! [`config`](ServerGeneration::config). Then [`ServerTls::admit`] checks whether the client's
//! certificate is revoked or has expired since the resumed session began, and returns its common
//! name.
//!
//! Invariants:
//!
//! - The files in use were valid when they were read: the key matches the certificate, and nothing
//!   is missing. Files that become invalid later are logged and not used.
//! - The first handshake after a change of a file uses it.
//! - A session is resumed only within a generation, so a client that is no longer trusted cannot
//!   use an old ticket.
//! - Files have a size limit ([`FILE_BYTES_MAX`]).
//!
//! # Not in this crate
//!
//! Sockets and runtimes: `net` performs handshakes with these configurations, and bounds their time
//! and number. `node` knows flags.

mod cipher_suites;
mod info;

mod files;
mod verify;

mod generation;

mod client_tls;
mod server_tls;

mod error;
mod handshake_error;
mod metrics;

pub use cipher_suites::{CipherSuiteError, CipherSuites};
pub use client_tls::{ClientTls, InvalidServerName};
pub use error::LoadError;
pub use files::file_stamps::FILE_BYTES_MAX;
pub use files::self_signed::{SelfSignedError, VALIDITY_YEARS_MAX, generate_self_signed};
pub use generation::ServerGeneration;
pub use handshake_error::handshake_error_text;
pub use info::{Info, Protocol, Version, Versions};
pub use metrics::Metrics;
pub use server_tls::ServerTls;
pub use verify::peer_certificate::{PeerCertificate, RejectedClient, Rejection};

pub use rustls;

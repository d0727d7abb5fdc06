//! The files of a TLS configuration: certificates, keys, CAs and revocation lists, and how they are
//! read again when they change.

pub(crate) mod crl;
pub(crate) mod file_stamps;
pub(crate) mod identity;
pub(crate) mod reloading_files;
pub(crate) mod self_signed;
pub(crate) mod tls_files;
pub(crate) mod trust_anchors;

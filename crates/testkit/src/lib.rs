//! Support for the tests of other crates. Only tests depend on it, and it depends on no other
//! crate.
//!
//! - [`script`] runs golden scripts: text files of commands with their expected output.
//! - [`waiting`] has bounded waits.
//! - [`ports`] reserves ports for servers.
//! - `certs`, a feature, issues certificates.

#[cfg(feature = "certs")]
pub mod certs;
pub mod ports;
pub mod script;
pub mod waiting;

//! Support for the tests of other crates. Only tests depend on it, and it depends on no other
//! crate.
//!
//! - [`script`] runs golden scripts: text files of commands with their expected output.
//! - [`waiting`] has bounded waits.
//! - `certs`, a feature, issues certificates.

#[cfg(feature = "certs")]
pub mod certs;
pub mod script;
pub mod waiting;

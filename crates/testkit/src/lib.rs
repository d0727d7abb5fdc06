//! Tools that tests of other crates share. Depended upon by tests alone; knows no other crate.
//!
//! [`script`] runs data-driven cases: text files of commands with the output they must give. [`waiting`] waits for what comes sooner or later. `certs`, a feature, issues certificates.

#[cfg(feature = "certs")]
pub mod certs;
pub mod script;
pub mod waiting;

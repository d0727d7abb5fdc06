//! Discovery of the members of a new cluster.
//!
//! A member with `--initial-cluster` knows all of them. Otherwise it finds them in one of two ways:
//!
//! ```text
//!   --discovery-srv example.com                               [srv]: DNS lists all members
//!       _etcd-server-ssl._tcp.example.com  m1.example.com 2380, m2.example.com 2380
//!   --discovery-token t --discovery-endpoints http://d:2379   [join]: members register with a service
//!       /_etcd/registry/t/_config/size     3
//!       /_etcd/registry/t/members/8e9e..   m1=http://10.0.0.1:2380
//! ```
//!
//! Both return the text of an `--initial-cluster`.
//!
//! Invariants: nothing is stored; a registered cluster has exactly the configured size; responses
//! are bounded by [`ANSWER_BYTES_MAX`] and treated as text, not as valid URLs.
//!
//! # Not in this crate
//!
//! `node` knows flags and the name of the member. It parses the result like a flag, and refuses
//! invalid URLs.

mod client;
#[cfg(feature = "dns")]
mod dns;
mod error;
mod member_list;
mod registration;
mod registry_keys;
mod settings;
pub mod srv;

pub use client::ANSWER_BYTES_MAX;
#[cfg(feature = "dns")]
pub use dns::SystemDns;
pub use error::JoinError;
pub use registration::{join, join_blocking};
pub use settings::{Settings, User};

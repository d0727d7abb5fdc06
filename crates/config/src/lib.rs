//! The configuration of a member: flags, environment and file, parsed and resolved.
//!
//! ```text
//!     command line ─┐
//!     environment ──┼─► Flags ───► logging, check ──► resolve ──► unsupported ──► Config
//!     file ─────────┘   as given   etcd's rules       defaults    our limits      resolved
//! ```
//!
//! [`parse`] runs these steps. It returns a [`Config`] and the [`Notice`]s for the log, or an
//! [`Exit`]: texts to print (help, a bad flag) or a refused configuration to log.
//!
//! Invariants: a value that etcd 3.7.1 accepts is accepted and means the same; a value that etcd
//! refuses is refused with etcd's text; a flag that Bowline cannot honour is refused, never ignored
//! (`unsupported`). Nothing is read from the process: arguments, environment and machine are
//! arguments of [`parse`]. The only file that is opened is the configuration file.
//!
//! The crate opens no sockets and starts no threads. Whether the data directory is empty, and so
//! whether the initial cluster matters, is up to `node`.

pub mod gates;
pub mod url;

mod check;
mod error;
mod file;
mod flags;
mod json;
mod machine;
mod notice;
mod parse;
mod resolve;
mod resolved;
mod unsupported;

pub use error::ConfigError;
pub use flags::Flags;
pub use flags::help::{BOWLINE_VERSION, ETCD_VERSION};
pub use gates::FeatureGates;
pub use machine::{Machine, NoDefaultHost};
pub use notice::Notice;
pub use parse::{Exit, Parsed, notices_without_logs, parse};
pub use resolve::tls::Audience;
pub use resolved::{
    Advertise, Auth, AutoCompaction, AutoTls, Backend, Checks, Client, Cluster, ClusterState,
    Compaction, Config, Discovery, DiscoveryService, DiscoveryUser, Keepalive, Limits, Listen,
    Monitoring, Peer, Raft, Tls, Tracing,
};

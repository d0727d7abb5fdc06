//! The configuration of a member: flags, environment and file, parsed and resolved.
//!
//! ```text
//!     command line ─┐
//!     environment ──┼─► Flags ───► logging, check ──► resolve ──► Config
//!     file ─────────┘   as given   etcd's rules       defaults    resolved
//! ```
//!
//! [`parse`] runs these steps. It returns a [`Config`] and the [`Notice`]s for the log, or an
//! [`Exit`]: texts to print (help, a bad flag) or a rejected configuration to log.
//!
//! Invariants: a value that etcd accepts is accepted and means the same; a value that etcd
//! rejects is rejected with etcd's text. Nothing is read from the process: arguments, environment
//! and machine are arguments of [`parse`]. The only file that is opened is the configuration file.
//!
//! The crate opens no sockets and starts no threads. Whether the data directory is empty, and so
//! whether the initial cluster matters, is up to `node`.

pub mod gates;
pub mod url;

mod check;
mod error;
mod file;
mod flags;
mod host_info;
mod json;
mod notice;
mod parse;
mod resolve;
mod resolved;
mod subcommand;

pub use error::ConfigError;
pub use flags::Flags;
pub use flags::help::{BOWLINE_VERSION, GIT_SHA, GO_VERSION};
pub use gates::FeatureGates;
pub use host_info::{HostInfo, NoDefaultHost};
pub use notice::Notice;
pub use parse::{Exit, Invocation, Parsed, notices_without_logs, parse, parse_command};
pub use resolve::tls::Audience;
pub use resolved::{
    Advertise, Auth, AutoCompaction, AutoTls, Backend, Checks, Client, ClusterConfig, ClusterState,
    Compaction, Config, Discovery, DiscoveryFlags, DiscoveryService, DiscoveryUser, FlagValues,
    Keepalive, Limits, Listen, Monitoring, Peer, ProfilesBy, Raft, Tls, Tracing,
};
pub use subcommand::{GatewayFlags, ProxyFlags, ProxyTls, Subcommand};

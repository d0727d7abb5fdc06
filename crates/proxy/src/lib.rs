//! Proxies in front of a cluster: `bowline gateway` and `bowline grpc-proxy`.
//!
//! ```text
//!   client ─► gateway ────────────────────── bytes ──────────────────────► a member
//!   client ─► server ─► services ─► kv, watch, keep_alive, cluster ─► upstream ─► a member
//!                          └ http      cache, leasing, namespace
//! ```
//!
//! The [gateway] knows TCP only. The gRPC proxy takes calls apart: it answers serializable reads
//! from a cache and linearizable reads of keys that it owns, lets watchers of one range and
//! keep-alives of all clients share a stream to a member, adds a namespace to keys, and lists the
//! proxies of a cluster in place of its members.
//!
//! A process of this kind is no member: it stores nothing, and clients can switch between it and
//! the members at any time.
//!
//! Invariants: a call that was sent is never repeated unless it only reads; a client that does not
//! read its responses delays no other client; queues and the cache are bounded.
//!
//! # Not in this crate
//!
//! `node` knows flags, binds ports and prints errors. `discovery` reads SRV records, `net` serves
//! connections, and `grpc` frames messages.

mod endpoints;
pub mod gateway;

mod server;
mod services;

mod cache;
mod cluster;
mod keep_alive;
mod kv;
mod leader;
mod leasing;
mod namespace;
mod registry;
mod watch;

mod retry;
mod upstream;

mod context;
mod errors;
mod http;
mod methods;
mod metrics;
mod observe;

#[cfg(test)]
mod tests;

pub use endpoints::{SrvSettings, discover};
pub use registry::RegistrySettings;
pub use server::{Body, GrpcProxy, ProxyError, ProxyPort, ProxySettings};
pub use upstream::UpstreamSettings;

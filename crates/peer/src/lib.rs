//! How members speak to each other: etcd's peer protocol, in both directions.
//!
//! Two members have up to four streams between them, two in each direction: whoever wants to hear dials, and the answer never ends. What a leader replicates has a stream of its own, on which
//! a message is little more than its entries. While a stream is not up, each message is a request; a snapshot always is.
//!
//! ```text
//!   member 1                                                                 member 2
//!   Transport::send ─► Outlet msgapp  ══ GET /raft/stream/msgapp/2  ═══════► Inlet ─► Server::receive
//!                   ─► Outlet message ══ GET /raft/stream/message/2 ═══════► Inlet ─► Server::receive
//!                   ─► Pipeline       ── POST /raft ───────────────────────► Handler ─► Server::receive
//!   send_snapshot ───► snapshots      ── POST /raft/snapshot ──────────────► Handler ─► Server::receive_snapshot
//!   request_… ───────► Asker          ── GET /version, POST /leases, … ────► Handler ─► Server::…_for_peer
//!                      prober         ── GET /raft/probing ────────────────► Handler
//! ```
//!
//! [`PeerTransport`] is all of that for one member. It has a thread of its own, so that clients, however many, do not hold up a heartbeat. It is there before the member that it speaks for,
//! since a member is handed its transport when it starts:
//!
//! ```no_run
//! # fn start(config: peer::Config, registry: &prometheus::Registry, listener: net::Listener, rest: std::sync::Arc<impl net::Handler>,
//! #     settings: server::ServerConfig, machine: server::Platform) -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! let transport = Arc::new(peer::PeerTransport::start(config, registry)?);
//! transport.serve(listener, net::Config::default(), rest)?;
//! let member = server::Member::start(settings, machine, Arc::clone(&transport) as Arc<_>, registry)?;
//! transport.attach(member.server().clone());
//! // …
//! transport.stop(Duration::from_secs(5));
//! member.stop();
//! # Ok(())
//! # }
//! ```
//!
//! What is always true:
//!
//! - Nothing that a member calls here waits. What cannot be sent is dropped, counted and reported; consensus sends it again.
//! - Over one stream messages arrive in the order in which they were sent, or the stream ends. Between ways there is no order, and consensus wants none.
//! - What waits is bounded, in messages and on streams in bytes too; so is what is read, and memory for it grows only as it comes; so is the time that a body, an answer or a silence may take.
//! - Whoever is of another cluster, or of a release that cannot be spoken with, is told so in the words that etcd compares; and when others say that this member was removed, it ends.
//! - What strangers make up, ids and addresses, is remembered of few, and never becomes the name of a metric.
//!
//! # Left to others
//!
//! What messages mean, and when to send them, is consensus (`raft`). Sockets, TLS and who is let in by it are those of `net` and `tls`. `node` knows the flags, and what else is answered on the peer port.

mod addresses;
mod headers;

mod codec;

mod local;
mod metrics;
mod sparingly;
mod status;

mod client;
mod contact;

mod pipeline;
mod post;
mod prober;
mod snapshots;
mod stream;

mod peer;
mod peers;

mod handler;
mod questions;
mod shared;
mod transport;

#[cfg(test)]
mod tests;

pub use questions::{Asker, KnownCluster, wait};
pub use transport::{Config, PeerTransport, TIMEOUT_DEFAULT};

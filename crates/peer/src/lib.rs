//! Communication between members: etcd's peer protocol, in both directions.
//!
//! Two members have up to four streams between them, two in each direction: the receiver dials, and
//! the response body never ends. `MsgApp` has a stream of its own, on which a message is little
//! more than its entries. While a stream is down, each message is a request; a snapshot always is.
//!
//! ```text
//!   member 1                                                                member 2
//!   Transport::send ─► StreamQueue  ══ GET /raft/stream/msgapp/2  ═══► reader ─► Server::receive
//!                   ─► StreamQueue  ══ GET /raft/stream/message/2 ═══► reader ─► Server::receive
//!                   ─► Pipeline     ── POST /raft ───────────────────► Handler ─► Server::receive
//!   send_snapshot ──► send::snapshot ─ POST /raft/snapshot ──────────► Handler ─► receive_snapshot
//!   request_… ──────► PeerRpcClient ── GET /version, POST /leases … ─► Handler ─► …_for_peer
//!                     prober        ── GET /raft/probing ────────────► Handler
//! ```
//!
//! [`PeerTransport`] is all of that for one member. It has its own thread, so that client load does
//! not delay heartbeats. It is created before its member, because a member takes its transport at
//! the start:
//!
//! ```no_run
//! # fn start(config: peer::Config, registry: &prometheus::Registry, listener: net::Listener,
//! #     fallback: std::sync::Arc<impl net::Handler>, settings: server::ServerConfig,
//! #     platform: server::Platform) -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! let transport = Arc::new(peer::PeerTransport::start(config, registry)?);
//! transport.serve(listener, net::Config::default(), fallback)?;
//! let for_member = Arc::clone(&transport) as Arc<_>;
//! let member = server::Member::start(settings, platform, for_member, registry)?;
//! transport.attach(member.server().clone());
//! // …
//! transport.stop(Duration::from_secs(5));
//! member.stop();
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//!
//! - No call from the member blocks. A message that cannot be sent is dropped, counted and
//!   reported; consensus sends it again.
//! - Messages of one stream arrive in order, or the stream ends. There is no order across streams
//!   and requests, and consensus needs none.
//! - Queues are bounded in messages, stream queues also in bytes. Received bytes are bounded, and
//!   memory grows only as they arrive. Bodies, responses and silences have timeouts.
//! - Requests of another cluster or of an incompatible release are refused with the texts that etcd
//!   compares. When peers report that the local member was removed, it stops.
//! - Ids and addresses that unknown senders claim are remembered for a bounded number of them, and
//!   never become metric labels.
//!
//! # Not in this crate
//!
//! `raft` knows what messages mean and when to send them. `net` and `tls` provide sockets, TLS and
//! client authentication. `node` knows the flags, and answers the other paths of the peer port.

mod transport;

mod peers;

mod stream;

mod send;

mod rpc;

mod handler;

mod client;
mod codec;
mod headers;
mod local_member;
mod log_rate_limiter;
mod metrics;
mod shared;

#[cfg(test)]
mod tests;

pub use rpc::{PeerRpcClient, RemoteCluster, wait};
pub use transport::{Config, PeerTransport, TIMEOUT_DEFAULT};

//! A member: consensus, the log, the replicated state and the requests of clients.
//!
//! [`Member::start`] restores a member from its data directory and runs it. [`Server`] is the
//! handle through which the API and peers use it. Between the two is a pipeline of stages. A stage
//! is a struct with a `turn`: it takes what is queued and processes it. A thread calls `turn` in a
//! process, a scheduler in a simulation.
//!
//! ```text
//!   request ─► raft loop ─► log: write, one sync ─► raft loop ─► apply ─► reply
//!              (consensus)    peers meanwhile        (quorum)      │
//!                                                                  └─► pending batch ─► database
//! ```
//!
//! [`StateMachine`] holds the replicated state. [`StateMachine::apply`] changes it by one entry of
//! the log, to the same bytes on every member. The state crates do not know each other; this crate
//! joins them:
//!
//! ```text
//!                                 ┌─ alarms, versions, members ─► membership
//!   entry ─► decode ─► layers ────┼─ keys ──────────────────────► mvcc ──┐ a revoked lease
//!            already              │                                      │ deletes its keys
//!            applied? skip        ├─ leases ────────────────────► lease ─┘
//!                                 └─ users, roles ──────────────► auth
//!                 one backend transaction, with the applied index ─► commit ─► watchers ─► reply
//! ```
//!
//! Invariants: no request is answered before a quorum has it durably; the changes of an entry
//! become durable together with its index; an entry at or below the applied index changes nothing;
//! an event is readable before a watcher gets it. A failure that is the same on every member is the
//! result of the entry ([`Refusal`]). Any other is a [`Fault`], after which the member stops,
//! because its state may differ from that of its peers.
//!
//! This crate knows no gRPC, HTTP or async runtime: its futures are woken by the stages.
//!
//! Modules, in the order of a request: `request` (from the API to a proposal or a read), `propose`
//! (pending proposals), `pipeline` (the stages), `apply` (the state machine), `read` (read index),
//! `snapshot`, `background` (periodic tasks), `bootstrap` (from a data directory to a member).

mod config;
mod context;
mod error;
mod lifecycle;
mod member;
mod server;
mod transport;

mod request;

mod propose;

mod pipeline;

pub mod apply;
mod state;

mod read;

mod snapshot;

mod background;
mod bootstrap;

pub mod describe;
pub mod metrics;
pub mod planted_bug;
pub mod quota;
mod units;

#[cfg(feature = "test-util")]
pub mod test_util;

pub use apply::{Applied, ConfChanges, Fault, Outcome, Refusal, Reply};
pub use bootstrap::StartError;
pub use config::{AutoCompaction, ExistingCluster, Features, ServerConfig};
pub use error::Error;
pub use lifecycle::StopReason;
pub use member::{Member, Platform};
pub use pipeline::peer_inbox::{PEER_MESSAGE_BYTES_MAX, PEER_MESSAGES_MAX};
pub use pipeline::stages;
pub use pipeline::voters::Voters;
pub use propose::pending::{PROPOSAL_BYTES_MAX, PROPOSALS_MAX, Proposal};
pub use propose::proposer::{APPLY_GAP_MAX, APPLY_GAP_PRIORITY_MAX};
pub use propose::stage_timings::{RequestStage, StageTimings, TIMED_PROPOSALS_MAX};
pub use propose::typed::{AppliedReply, Propose};
pub use proto::nested::STACK_BYTES;
pub use request::*;
pub use server::Server;
pub use state::{Config, StateMachine};
pub use transport::{
    DatabaseImage, NoPeers, OutgoingSnapshot, PeerHash, PeerRequestError, PeerResponse,
    PeerVersions, Transport,
};

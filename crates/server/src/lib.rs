//! A member: consensus, the log, the replicated state, and the requests of clients.
//!
//! [`Member::start`] takes up what is in a folder and runs; [`Server`] is the handle through which everybody else asks it for something. Between the two is
//! a pipeline of stages, each a struct with a `turn` (take what waits, do it, say what follows), which a thread calls in a process and a
//! scheduler in a simulation:
//!
//! ```text
//!   request ─► raft loop ─► log: write, one sync ─► raft loop ─► apply ─► reply
//!              (consensus)    others meanwhile       (quorum)      │
//!                                                                  └─► pending batch ─► database file
//! ```
//!
//! [`StateMachine`] holds all that members agree on, and [`StateMachine::apply`] changes it by one entry of the log: in the same way, to the same bytes, on
//! every member. The crates that hold the parts do not know each other; here they are joined.
//!
//! ```text
//!                                 ┌─ alarms, versions, members ─► membership
//!   entry ─► decode ─► layers ────┼─ keys ─────────────────────► mvcc ──┐ a revoked lease deletes its keys,
//!            applied               ├─ leases ───────────────────► lease ─┘ a key is attached to its lease
//!            already? skip         └─ users, roles ─────────────► auth
//!                 one backend transaction, with the applied index ─► commit ─► watch hub ─► result
//! ```
//!
//! What is always true: nothing is answered before a quorum has it durably; an entry's changes and its index become durable together; an entry at or below
//! the applied index changes nothing; what watchers hear of is there to be read. A failure that is the same on every member is the result of the entry
//! ([`Refusal`]); any other is a [`Fault`], after which this member has to stop, because it no longer knows what the others know.
//!
//! Nothing here knows gRPC, HTTP or a runtime: what takes time is a future of the standard library, woken by the stages.

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

#[cfg(test)]
mod rig;

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
pub use propose::stage_timings::{RequestStage, StageTimings, TIMED_PROPOSALS_MAX};
pub use propose::typed::{AppliedReply, Propose};
pub use request::*;
pub use server::{APPLY_GAP_MAX, APPLY_GAP_PRIORITY_MAX, Server};
pub use state::{Config, StateMachine};
pub use transport::{
    DatabaseImage, NoPeers, OutgoingSnapshot, PeerHash, PeerRequestError, PeerResponse,
    PeerVersions, Transport,
};

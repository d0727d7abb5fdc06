//! Consensus: members agree on one log, although some fail and messages get lost.
//!
//! This is the Raft algorithm as etcd runs it, to the message: elections with pre-vote and leader lease,
//! replication with flow control, joint changes of membership, learners, linearizable reads, leader
//! transfer, snapshots, and storage writes that need not be waited for. References to *the thesis* are
//! to Diego Ongaro, *Consensus: Bridging Theory and Practice*, 2014.
//!
//! **Without I/O.** Ticks, messages and proposals go into a [`RawNode`]; a [`Ready`] comes out and says
//! what to save, send and apply. There is no clock, thread, file or randomness in this crate but what its
//! [`Config`] brings, so a whole cluster runs in one thread of a test and repeats to the byte.
//!
//! ```text
//! tick ───────┐                 ┌──► messages ──────────────► peers
//! step ───────┤    RawNode      ├──► entries, hard state ───► log, made durable ──┐
//! propose ────┼──► (state) ─────┼──► committed entries ─────► state machine ──────┤
//! read_index ─┘       ▲         └──► read states ───────────► readers             │
//!                     └──────────────────── advance, or responses ────────────────┘
//! ```
//!
//! # One member on its own
//!
//! ```
//! use bytes::Bytes;
//! use raft::{Config, ConfState, MemoryStorage, RawNode};
//! use types::MemberId;
//!
//! let storage = MemoryStorage::with_conf_state(ConfState::of_voters([MemberId(1)]));
//! let mut node = RawNode::new(Config::new(MemberId(1)), storage)?;
//! node.campaign();
//!
//! let mut applied = Vec::new();
//! let mut proposed = false;
//! while node.has_ready() {
//!     let ready = node.ready();
//!     // Save first: entries, then the hard state.
//!     node.storage_mut().append(&ready.entries)?;
//!     if let Some(state) = ready.hard_state {
//!         node.storage_mut().set_hard_state(state);
//!     }
//!     // Then send `ready.messages`: there is nobody to send to. Then apply.
//!     applied.extend(ready.committed_entries.into_iter().map(|entry| entry.data));
//!     node.advance();
//!     // The first entry applied is the one that opens the leader's term.
//!     if !applied.is_empty() && !proposed {
//!         proposed = true;
//!         node.propose(Bytes::from_static(b"put a"))?;
//!     }
//! }
//! assert_eq!(applied, [&b""[..], b"put a"]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading order: the values (`entry`, `message`, `snapshot`, `state`, `conf`), who decides (`quorum`,
//! `tracker`, `confchange`), the log (`storage`, `log`), the state machine (`raft`), its edge (`raw_node`).

mod conf;
mod entry;
mod message;
mod snapshot;
mod state;

pub mod confchange;
pub mod quorum;
pub mod tracker;

mod log;
mod storage;

mod config;
mod raft;

mod bootstrap;
mod raw_node;
mod ready;
mod status;

pub mod describe;
pub mod wire;

pub use bootstrap::{BootstrapError, Peer};
pub use conf::{
    AnyConfChange, ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType,
    ConfChangeV2, ConfState, Procedure,
};
#[cfg(feature = "planted-bugs")]
pub use config::PlantedBug;
pub use config::{Config, ConfigError, ReadOnlyOption};
pub use entry::{Entry, EntryId, EntryType};
pub use message::{LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, Message, MessageType, is_local_thread};
pub use raft::{DropReason, ProposeError, ReadState, StartError, StepError};
pub use raw_node::RawNode;
pub use ready::Ready;
pub use snapshot::{Snapshot, SnapshotMetadata};
pub use state::{HardState, RoleKind, SoftState};
pub use status::{BasicStatus, Status};
pub use storage::{LogError, MemoryStorage, MemoryStorageError, SnapshotError, Storage};

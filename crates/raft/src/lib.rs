//! The Raft consensus algorithm, as etcd runs it and without I/O.
//!
//! Members agree on one replicated log, although some of them fail and messages get lost. The core
//! exchanges the same messages as etcd's raft library: elections with pre-vote and leader lease,
//! replication with flow control, joint conf changes, learners, linearizable reads, leader
//! transfer, snapshots and asynchronous storage writes. *The thesis* refers to Diego Ongaro,
//! *Consensus: Bridging Theory and Practice*, 2014.
//!
//! Ticks, messages and proposals go into a [`RawNode`]; a [`Ready`] comes out and lists what to
//! save, send and apply. The crate has no clock, thread, file or source of randomness other than
//! its [`Config`], so a whole cluster runs in one thread of a test and is reproducible to the byte.
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
//!     // Then send `ready.messages` (a single member has no peers), then apply.
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
//! Reading order: the values (`entry`, `message`, `snapshot`, `state`, `conf`), quorums and
//! progress (`quorum`, `tracker`, `confchange`), the log (`storage`, `log`), the state machine
//! (`raft`), the API (`raw_node`).

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

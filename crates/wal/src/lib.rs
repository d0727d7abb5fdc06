//! The write-ahead log and snapshot files, in etcd's formats.
//!
//! All state that a member must not forget is written here first: log entries, term and vote, and
//! the snapshots from which the log can be replayed. Data given to [`Wal::save`] survives a power
//! cut once it returns. The files are etcd's byte for byte: either server continues with the log of
//! the other.
//!
//! ```text
//! member/wal/                                  directory of the log
//!   0000000000000000-0000000000000000.wal      segments of 64 MB, each with records:
//!   0000000000000001-0000000000002c3f.wal        crc  metadata  state  entry entry state …  zeros
//!   0.tmp                                      the next segment, being filled with zeros
//! member/snap/                                 directory of snapshot files: see `snap`
//! ```
//!
//! A record is a length-prefixed message. One running checksum covers all records of all segments,
//! so that a missing record in the middle is detected.
//!
//! # Example
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use proto::raftpb::{Entry, HardState};
//! use proto::walpb::Snapshot;
//! use wal::{Config, Wal};
//!
//! // An in-memory disk; a member uses `env::OsDisk`.
//! let disk: Arc<dyn env::Disk> = Arc::new(env::SimDisk::new(1));
//! let dir = Path::new("/wal");
//! let config = Config { segment_bytes: 1 << 20, ..Config::default() };
//!
//! let mut wal = Wal::create(Arc::clone(&disk), dir, "metadata", config)?;
//! let entry = Entry { term: Some(1), index: Some(1), data: Some("put".into()), r#type: None };
//! let state = HardState { term: Some(1), vote: Some(7), commit: Some(0) };
//! wal.save(&state, &[entry.clone()], true)?;
//! assert_eq!(wal.durable(), wal.written());
//! wal.close()?;
//!
//! // The newest valid snapshot. If reading fails with an `is_torn` error, call `wal::repair` once
//! // and retry.
//! let start: Snapshot = wal::valid_snapshots(&*disk, dir)?.pop().expect("a log begins with one");
//! let (wal, contents) = Wal::open(disk, dir, &start, config)?.read_all()?;
//! assert_eq!((contents.entries, contents.state), (vec![entry], state));
//! # drop(wal);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Scope
//!
//! The crate does not interpret entries, decide when to sync (the caller of [`Wal::save`] does), or
//! read the clock. Its only thread is the one started by [`Wal::prepare_in_background`], and all
//! disk access goes through `env`.

mod frame;
mod segment;

mod decode;
mod reader;
mod replay;
mod starts;
mod window;

mod log;
mod prepare;

mod purge;
mod repair;
mod verify;
mod version;

mod error;
pub mod snap;

pub use decode::{decode_entry, decode_snapshot, decode_state};
pub use error::{DiskError, OpenError, ReadError, RecordLocation, RepairError, SaveError};
pub use frame::RecordKind;
pub use log::{Config, Position, UnreadWal, Wal};
pub use prepare::{PrepareTurn, Preparer};
pub use purge::purge;
pub use reader::{Record, Records};
pub use repair::{Repair, repair};
pub use replay::{LogContents, ReplayEvent, ReplaySummary, read, read_all};
pub use segment::exists;
pub use verify::{LogSurvey, read_live, survey, valid_snapshots, verify};
pub use version::{InvalidVersion, Version, VersionError, minimal_etcd_version};

/// Size at which a segment is closed: 64 MB, not MiB, as in etcd.
pub const SEGMENT_BYTES: u64 = 64 * 1000 * 1000;

/// Maximum size of one save, in bytes, to bound the memory of a log. Far above the size of a
/// `Ready`.
pub const SAVE_BYTES_MAX: usize = 1 << 30;

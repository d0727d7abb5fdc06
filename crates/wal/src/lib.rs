//! The log on disk, and snapshot files, in etcd's formats.
//!
//! Everything a member must not forget goes through here first: the entries of the log, its term and vote, and the
//! places from which it can be replayed. [`Wal::save`] returns, and what it was given survives a power cut. The files
//! are etcd's to the byte: a member of either kind goes on with the log of the other.
//!
//! ```text
//! member/wal/                                  a folder for the log
//!   0000000000000000-0000000000000000.wal      segments of 64 MB, each
//!   0000000000000001-0000000000002c3f.wal        crc  metadata  state  entry entry state entry snapshot …  zeros
//!   0.tmp                                      the next one, being filled with zeros
//! member/snap/                                 a folder for snapshot files: see `snap`
//! ```
//!
//! One record is a message behind a length; one checksum runs through all records of all segments, so that none can be
//! missing from the middle.
//!
//! # From one start to the next
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use proto::raftpb::{Entry, HardState};
//! use proto::walpb::Snapshot;
//! use wal::{Config, Wal};
//!
//! // A disk in memory; a member has an `env::OsDisk`.
//! let disk: Arc<dyn env::Disk> = Arc::new(env::SimDisk::new(1));
//! let dir = Path::new("/wal");
//! let config = Config { segment_bytes: 1 << 20, ..Config::default() };
//!
//! let mut wal = Wal::create(Arc::clone(&disk), dir, "whose log it is", config)?;
//! let entry = Entry { term: Some(1), index: Some(1), data: Some("put".into()), r#type: None };
//! let state = HardState { term: Some(1), vote: Some(7), commit: Some(0) };
//! wal.save(&state, &[entry.clone()], true)?;
//! assert_eq!(wal.durable(), wal.written());
//! wal.close()?;
//!
//! // The newest place to start from. If reading fails, and `is_torn`, then `wal::repair`, once, and again.
//! let start: Snapshot = wal::valid_snapshots(&*disk, dir)?.pop().expect("a log starts with one");
//! let (wal, contents) = Wal::open(disk, dir, &start, config)?.read_all()?;
//! assert_eq!((contents.entries, contents.state), (vec![entry], state));
//! # drop(wal);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not know
//!
//! What entries mean, when to sync ([`Wal::save`] is told), and what time it is. It has no thread but the one that
//! [`Wal::prepare_in_background`] starts, and everything it asks of the disk goes through `env`.

mod frame;
mod segment;

mod contents;
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

pub use contents::{entry, snapshot, state};
pub use error::{Failure, OpenError, Place, ReadError, RepairError, SaveError};
pub use frame::Kind;
pub use log::{Config, Opening, Position, Wal};
pub use prepare::{Preparer, Turn};
pub use purge::purge;
pub use reader::{Record, Records};
pub use repair::{Repair, repair};
pub use replay::{Contents, Replayed, Summary, read, read_all};
pub use segment::exists;
pub use verify::{Survey, survey, valid_snapshots, verify};
pub use version::{NoVersion, Version, VersionError, minimal_etcd_version};

/// The size at which a segment is closed: 64 MB, not MiB, as in etcd.
pub const SEGMENT_BYTES: u64 = 64 * 1000 * 1000;

/// The most that one save may bring, so that a log's memory is bounded. It is far over what consensus hands over at
/// once.
pub const SAVE_BYTES_MAX: usize = 1 << 30;

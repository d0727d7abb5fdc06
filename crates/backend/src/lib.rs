//! The database of a member: the bolt file, with batches of writes that are not committed to it
//! yet.
//!
//! A [`Backend`] has three layers, the newest first. A transaction is merged into the *active*
//! batch in one step. Every 100 ms, or sooner if the batch grows large, a [`Committer`] *freezes*
//! that batch, writes it to the bolt file while the next one fills, and drops it once the file has
//! it. Readers see all three layers:
//!
//! ```text
//!  Tx ──commit────────► active  key 7_0 → ...  meta consistent_index → 9   in memory
//!                         │ freeze
//!  BackendView ─reads─► frozen  key 6_0 → ...  key 3_0 → deleted           in memory, committing
//!                         │ one bolt transaction
//!                       file    key 3_0 → ...  meta consistent_index → 5   durable
//! ```
//!
//! Invariants:
//!
//! - A [`BackendView`] shows the state between two transactions for as long as it is kept: neither
//!   commits nor later transactions change it.
//! - A transaction is in the file entirely or not at all, together with the index of its log entry:
//!   a batch is frozen only between transactions, and becomes one bolt transaction.
//! - The file never waits for readers, nor readers for the file. A writer waits only if more than
//!   [`Config::pending_bytes_max`] is pending, until a commit has finished.
//! - After a failed commit no writes are accepted, and reads continue.
//!
//! ```
//! # use std::sync::Arc;
//! # let disk = Arc::new(env::SimDisk::new(0));
//! # let clock = Arc::new(env::SimClock::default());
//! use backend::schema::{Bucket, meta};
//! use backend::{Backend, Config, Read as _};
//! use types::{Index, Term};
//!
//! let backend = Backend::open(disk, clock, "db".as_ref(), Config::default())?;
//! let before = backend.view();
//!
//! let mut tx = backend.begin();
//! tx.put(Bucket::Lease, &b"\0\0\0\0\0\0\0\x07"[..], &b"..."[..])?;
//! tx.set_applied(Index(5), Term(1));
//! tx.commit()?;
//!
//! assert_eq!(meta::applied(&before)?, (Index(0), Term(0)));
//! assert_eq!(meta::applied(&backend.view())?, (Index(5), Term(1)));
//! backend.force_commit()?; // durable from here on
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! The encoding of buckets and keys is in [`schema`]; the file format is in `bolt`. The meaning of
//! the values belongs to the crates above.

pub mod schema;

mod backend;
mod batch;
mod commit;
mod config;
mod error;
mod hash;
mod layers;
mod range;
mod read;
mod reader;
mod scrub;
mod snapshot_database;
mod thread;
mod tx;

pub use backend::{Backend, Stats};
pub use batch::{BatchSize, Sequence};
pub use bolt::PutError;
pub use bolt::{CorruptPage, OpenError as FileError, Snapshot as FileSnapshot};
pub use commit::{CommitObserver, CommitReport, Committer};
pub use config::{
    BATCH_BYTES_DEFAULT, BATCH_INTERVAL_DEFAULT, BATCH_OPS_DEFAULT, Config,
    PENDING_BYTES_MAX_DEFAULT,
};
pub use error::{
    CloseError, CommitError, DefragmentError, HashError, OpenError, ReadError, SnapshotError,
};
pub use layers::BackendView;
pub use range::Range;
pub use read::{Item, Read, Value};
pub use reader::Reader;
pub use scrub::{SCRUB_INTERVAL_DEFAULT, SCRUB_PAGES_DEFAULT, ScrubThread, Scrubber};
pub use snapshot_database::check_snapshot_database;
pub use thread::CommitThread;
pub use tx::Tx;

//! The database of a member: what is in the file, and what is on its way there.
//!
//! A [`Backend`] is three layers, the newest first. A transaction goes into the *active* batch in one step. Every 100 ms, or sooner if
//! much has come, a [`Committer`] *freezes* that batch, writes it to the bolt file while the next one fills, and drops it once the
//! file has it. Whoever reads sees through all three:
//!
//! ```text
//!    Tx ──commit──►  active   key 7_0 → ...   meta consistent_index → 9      in memory
//!                      │ freeze
//!    View ─reads─►   frozen   key 6_0 → ...   key 3_0 → deleted              in memory, and being written
//!                      │ one bolt transaction
//!                    file     key 3_0 → ...   meta consistent_index → 5      durable
//! ```
//!
//! What is always true:
//!
//! - A [`View`] is one moment between two transactions, for as long as it is kept: neither commits nor later transactions show in it.
//! - A transaction is in the file whole or not at all, and the index of the log entry that it came from with it: a batch is
//!   frozen only between transactions, and becomes one bolt transaction.
//! - The file never waits for readers, nor readers for the file. Who writes waits only if so much is pending
//!   ([`Config::pending_bytes_max`]) that a commit has to come first.
//! - After a commit has failed nothing more is accepted, and reading goes on.
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
//! backend.force_commit()?; // ... and now a power cut cannot take it back
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! The bytes of buckets and keys are in [`schema`]; the file itself is `bolt`'s. What the values mean this crate does not know.

pub mod schema;

mod backend;
mod batch;
mod commit;
mod config;
mod error;
mod hash;
mod image;
mod layers;
mod range;
mod read;
mod reader;
mod scrub;
mod thread;
mod tx;

pub use backend::{Backend, Stats};
pub use batch::{Load, Sequence};
pub use bolt::{CorruptPage, OpenError as FileError, Snapshot as FileSnapshot};
pub use commit::{Committed, Committer, Observer};
pub use config::{
    BATCH_BYTES_DEFAULT, BATCH_INTERVAL_DEFAULT, BATCH_OPS_DEFAULT, Config,
    PENDING_BYTES_MAX_DEFAULT,
};
pub use error::{
    CloseError, CommitError, DefragmentError, HashError, OpenError, PutError, ReadError,
    SnapshotError,
};
pub use image::check_image;
pub use layers::View;
pub use range::Range;
pub use read::{Item, Read, Value};
pub use reader::Reader;
pub use scrub::{SCRUB_INTERVAL_DEFAULT, SCRUB_PAGES_DEFAULT, ScrubThread, Scrubber};
pub use thread::CommitThread;
pub use tx::Tx;

//! The database file, in bbolt's format byte for byte: etcd and Bowline open each other's files.
//!
//! A file is an array of pages. Two meta pages locate the root. From there, pages form B+trees, one
//! per [bucket](Bucket), and buckets may contain buckets. Pages are never changed in place
//! (copy-on-write): a commit writes the changed pages, and all pages above them, to free locations,
//! and then a meta page that leads to them.
//!
//! ```text
//!   page  0      1      2        3       4      5 ...
//!        +------+------+--------+-------+------+------+----
//!        | meta | meta | (free) | branch| leaf | leaf |    txid 6 wrote meta 0, txid 5 meta 1
//!        +------+------+--------+-------+------+------+----
//! ```
//!
//! A reader takes a [`Snapshot`], a shared pointer to the last committed state, and reads the
//! mapped file without locks or copies. A writer takes a [`WriteTx`]; there is one at a time.
//!
//! ```
//! # use std::sync::Arc;
//! # let disk = Arc::new(env::SimDisk::new(0));
//! # let clock = env::SimClock::default();
//! let db = bolt::Db::open(disk, &clock, "db".as_ref(), bolt::Options::default())?;
//! let before = db.snapshot();
//!
//! let mut tx = db.write()?;
//! tx.create_bucket_if_missing(b"key")?.put(b"foo", b"bar")?;
//! tx.commit()?;
//!
//! assert!(before.bucket(b"key")?.is_none());
//! let now = db.snapshot();
//! assert_eq!(now.bucket(b"key")?.unwrap().get(b"foo")?, Some(&b"bar"[..]));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! The meaning of buckets and keys, and the decision when to commit, belong to `backend`.

mod meta;
mod page;

mod bucket;
mod cursor;
mod finger;
mod snapshot;
mod state;
mod tree;

mod db;
mod open;

mod freelist;
mod node;
mod write;

mod check;
mod checksums;
mod scrub;
mod walk;

mod defrag;
mod diff;

mod error;

pub use bucket::{Bucket, BucketStats};
pub use cursor::{Cursor, Item};
pub use db::{Db, GROW_BYTES_DEFAULT, Options};
pub use defrag::{Defrag, DefragError, DefragReport, SWAP_BYTES_MAX, SWAP_CHANGES_MAX};
pub use error::{CommitError, CorruptPage, Error, OpenError, PutError};
pub use finger::Finger;
pub use scrub::{Scrub, ScrubReport};
pub use snapshot::Snapshot;
pub use write::{
    BucketMut, CommitPhases, FILL_PERCENT_DEFAULT, KEY_MAX, NESTING_MAX, VALUE_MAX, WriteTx,
};

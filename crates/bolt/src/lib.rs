//! The database file: bbolt's format, byte for byte, so that etcd and Bowline open each other's files.
//!
//! A file is an array of pages. Two meta pages say where the root is; from there, pages form B+trees, one for each [bucket](Bucket),
//! and buckets may hold buckets. A page is never changed in place: a commit writes the changed ones, and all
//! above them, to places that are free, and then a meta page that leads to them.
//!
//! ```text
//!   page  0      1      2        3       4      5 ...
//!        +------+------+--------+-------+------+------+----
//!        | meta | meta | (free) | branch| leaf | leaf |        txid 6 wrote meta 0, txid 5 wrote meta 1
//!        +------+------+--------+-------+------+------+----
//! ```
//!
//! A reader takes a [`Snapshot`], which is a shared pointer to the last committed state, and reads the mapped file without a lock and without
//! a copy. A writer takes a [`WriteTx`]; there is one at a time.
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
//! What this crate does not know: what the buckets and keys mean (`backend` does), and when to commit.

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
pub use error::{CommitError, Damaged, Error, OpenError};
pub use finger::Finger;
pub use scrub::{Scrub, ScrubReport};
pub use snapshot::Snapshot;
pub use write::{BucketMut, FILL_PERCENT_DEFAULT, KEY_MAX, NESTING_MAX, VALUE_MAX, WriteTx};

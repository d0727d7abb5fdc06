//! Keys and their history.
//!
//! Every transaction that changes something makes a revision, and the store can be read as it was at each, back to the last
//! compaction. A change of a key is stored under its revision and never changed again:
//!
//! ```text
//!   put a=1        2.0   a  created 2  modified 2  version 1  "1"
//!   put a=2        3.0   a  created 2  modified 3  version 2  "2"
//!   txn            4.0   b  created 4  modified 4  version 1  "x"         two changes, one revision
//!                  4.1   a  tombstone
//!
//!   index          a {2.0, 3.0, 4.1t}   b {4.0}                           which revision is a key's at 3?  3.0
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | [`kv`], [`event`] | the stored form of a key, read where it lies; a change as watchers see it |
//! | `index` | which keys there are, and the revisions of each, in memory |
//! | `moment`, `range`, `values`, `response` | reading: comparisons, ranges, and answers framed without decoding what is stored |
//! | [`txn`], `write` | changing: transactions, and the one writer there is |
//! | `compaction`, `hash`, `restore`, `past` | dropping history; comparing members; starting; history for watchers |
//! | [`check`] | what a member refuses before it asks anybody |
//! | [`watch`] | telling clients what changes |
//!
//! ```
//! # use std::sync::Arc;
//! # let disk = Arc::new(env::SimDisk::new(0));
//! # let clock = Arc::new(env::SimClock::default());
//! use backend::{Backend, Config};
//! use mvcc::{NoLeases, Store};
//! use proto::etcdserverpb::{PutRequest, RangeRequest};
//!
//! let backend = Backend::open(disk, clock, "db".as_ref(), Config::default())?;
//! let store = Store::open(backend.clone(), &NoLeases, mvcc::Config::default())?;
//!
//! let mut tx = backend.begin();
//! let mut txn = store.write(&mut tx, &NoLeases);
//! let put = PutRequest { key: "a".into(), value: "1".into(), ..PutRequest::default() };
//! assert_eq!(txn.put(&put)?.revision, 2, "an empty store is at revision 1");
//! let changes = txn.finish();
//! tx.commit()?;
//! store.publish(&changes); // ... and now everybody sees it, all at once
//!
//! let range = RangeRequest { key: "a".into(), ..RangeRequest::default() };
//! let answer = store.range(&range)?;
//! let kv = mvcc::kv::KeyValueRef::parse(answer.kvs.iter().next().unwrap()).unwrap();
//! assert_eq!((kv.value, kv.mod_revision), (&b"1"[..], 2));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! What is always true: a revision is readable when its transaction is in the backend, whole, and not before; what is read at a revision never
//! changes; the bytes under a revision are etcd's. What leases and users are, this crate does not know.

pub mod event;
pub mod kv;

mod error;
mod index;

mod range;
mod read_view;
mod response;
pub mod txn;
mod value_reader;
mod write;

mod compaction;
mod hash;
mod history_reader;
mod restore;
mod store;
mod watchable_store;

pub mod check;
pub mod watch;

pub use compaction::{CompactionTicket, CompactionTurn};
pub use error::{Error, Fault};
pub use event::{Event, EventKind};
pub use hash::KeyValueHash;
pub use response::{DeleteRangeResult, Kvs, OpResult, PutResult, RangeResult, Response, TxnResult};
pub use store::{
    COMPACTION_BATCH_LIMIT_DEFAULT, Changes, Config, FIRST_REVISION, Leases, NEVER_COMPACTED,
    NoLeases, Reader, Store,
};
pub use watchable_store::WatchableStore;
pub use write::WriteTxn;

//! The key-value store: multi-version concurrency control over the backend.
//!
//! Every transaction that writes creates a new revision. The store can be read at each revision
//! back to the last compaction. A change is stored under its revision and never modified:
//!
//! ```text
//!   put a=1        2.0   a  created 2  modified 2  version 1  "1"
//!   put a=2        3.0   a  created 2  modified 3  version 2  "2"
//!   txn            4.0   b  created 4  modified 4  version 1  "x"      two changes, one revision
//!                  4.1   a  tombstone
//!
//!   index          a {2.0, 3.0, 4.1t}   b {4.0}                        a at revision 3 is 3.0
//! ```
//!
//! | module | purpose |
//! | --- | --- |
//! | [`kv`], [`event`] | the encoded `KeyValue` of a revision; a change as watchers receive it |
//! | `index` | the keys and the revisions of each, in memory |
//! | `read_view`, `range`, `value_reader` | comparisons and ranges at a revision |
//! | `response` | results, framed without decoding stored values |
//! | [`txn`], `write` | transactions, and the single writer |
//! | `compaction` | discarding superseded revisions |
//! | `hash` | comparing the data of members |
//! | `restore`, `history_reader` | opening a database; reading history for watchers |
//! | [`watch`] | delivery of events to watchers |
//! | `store` | [`Store`]: reads and writes keys |
//! | `watchable_store` | [`WatchableStore`]: a store with watchers, the type that members use |
//!
//! ```
//! # use std::sync::Arc;
//! # let disk = Arc::new(env::SimDisk::new(0));
//! # let clock = Arc::new(env::SimClock::default());
//! use backend::{Backend, Config};
//! use mvcc::{NoLeases, WatchableStore, watch};
//! use proto::etcdserverpb::{PutRequest, RangeRequest};
//!
//! let backend = Backend::open(disk, clock, "db".as_ref(), Config::default())?;
//! let (config, watch) = (mvcc::Config::default(), watch::Config::default());
//! let store =
//!     WatchableStore::open(backend.clone(), &NoLeases, config, &watch, Arc::new(|| ()))?;
//!
//! let mut tx = backend.begin();
//! let mut txn = store.write(&mut tx, &NoLeases);
//! let put = PutRequest { key: "a".into(), value: "1".into(), ..PutRequest::default() };
//! assert_eq!(txn.put(&put)?.revision, 2, "an empty store is at revision 1");
//! let changes = txn.finish();
//! store.commit(tx, &changes)?; // now readers and watchers see it
//!
//! let range = RangeRequest { key: "a".into(), ..RangeRequest::default() };
//! let answer = store.range(&range)?;
//! let kv = mvcc::kv::KeyValueRef::parse(answer.kvs.iter().next().unwrap()).unwrap();
//! assert_eq!((kv.value, kv.mod_revision), (&b"1"[..], 2));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! Invariants:
//!
//! - A revision becomes readable as a whole, after its transaction is in the backend.
//! - A read at a revision always returns the same result.
//! - The bytes stored under a revision are the bytes that etcd stores.
//!
//! The crate knows neither leases nor users: [`Leases`] is the interface to the lessor.

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

pub mod watch;

pub use compaction::{CompactionTicket, CompactionTurn};
pub use error::{Error, Fault};
pub use event::{Event, EventKind};
pub use hash::KeyValueHash;
pub use range::{has_filters, is_default_order};
pub use response::{DeleteRangeResult, Kvs, OpResult, PutResult, RangeResult, Response, TxnResult};
pub use store::{
    COMPACTION_BATCH_LIMIT_DEFAULT, Changes, Config, FIRST_REVISION, Leases, NEVER_COMPACTED,
    NoLeases, Reader, Store,
};
pub use watchable_store::{WatchableStore, Write};
pub use write::WriteTxn;

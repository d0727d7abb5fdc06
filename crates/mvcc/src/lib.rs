//! Keys and their history: index, revisions, ranges, transactions, compaction, watch.

pub mod event;
pub mod kv;

mod error;
mod index;

mod moment;
mod range;
mod response;
pub mod txn;
mod write;

mod compaction;
mod hash;
mod past;
mod restore;
mod store;

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
pub use write::WriteTxn;

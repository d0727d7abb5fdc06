//! The store compared with a plain model.
//!
//! | file | content |
//! | --- | --- |
//! | `state`, `retained_revisions`, `answers` | the model: all revisions, compaction and hash, requests |
//! | `requests`, `subject` | random requests; the store with its disk, leases and restarts |
//! | `sequence` | random sequences: every response, stored byte and lease is compared |
//! | `scale` | many keys, long histories, mass deletes |
//! | `threads` | a writer, readers and compaction at the same time |
//!
//! The model uses nothing of the crate but its messages. It is slow, and short enough to be
//! compared with etcd's documentation.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod answers;
mod requests;
mod retained_revisions;
mod state;
mod subject;

mod scale;
mod sequence;
mod threads;

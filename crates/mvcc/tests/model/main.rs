//! The store against a plain model of it.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `state`, `kept`, `answers` | the model: every revision as a whole, what stays of them, and what requests do to it and are answered |
//! | `requests`, `subject` | requests of every kind; the store with its file, its leases and its restarts |
//! | `sequence` | whatever comes in whatever order: every answer, every stored byte, every lease |
//! | `scale` | many keys, long histories, mass deletions: what a small key space never gets to |
//! | `check` | what is refused before it gets to the store |
//! | `threads` | a writer, readers and compaction at the same time |
//!
//! The model knows nothing of the crate but its messages. It is slow, and short enough to be read against etcd's documentation.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod answers;
mod kept;
mod requests;
mod state;
mod subject;

mod check;
mod scale;
mod sequence;
mod threads;

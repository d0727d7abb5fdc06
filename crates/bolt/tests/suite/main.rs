//! Tests of the database against a model, failing disks and hostile files.
//!
//! | file | property |
//! | --- | --- |
//! | `model` | after any transactions, the file holds the same as a nested `BTreeMap` |
//! | `space` | unneeded pages are reused |
//! | `crash` | a power cut at any write or sync loses no acknowledged commit |
//! | `faults` | disk errors stop writes and nothing else |
//! | `rewrite` | defragmentation under load loses nothing |
//! | `hostile` | arbitrary bytes cause neither panics nor endless loops |
//! | `crafted` | nor do handcrafted files with cycles |
//! | `defrag` | locks, checksums and meta pages survive a defragmentation |
//! | `scrub` | checksums detect a flipped bit |
//! | `files` | files written by bbolt |
//! | `fuzz_corpus` | the fuzzer's corpus |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod crafted;
mod crash;
mod defrag;
#[path = "../../examples/bolt_tool/dump.rs"]
mod dump;
mod exercise;
mod faults;
mod files;
mod fuzz_corpus;
mod hostile;
mod model;
mod rewrite;
mod scrub;
#[path = "../../examples/bolt_tool/sha256.rs"]
mod sha256;
mod space;
mod support;

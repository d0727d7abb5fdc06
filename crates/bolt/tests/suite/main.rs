//! The database against a model, a failing disk and hostile files.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `model` | whatever transactions do, the file holds what a nested `BTreeMap` would |
//! | `space` | pages that nothing needs are used again |
//! | `crash` | a power cut at any change loses nothing that was acknowledged |
//! | `faults` | an error of the disk stops writing, and nothing else |
//! | `rewrite` | defragmenting loses nothing either |
//! | `hostile` | no bytes of a file make it panic or run on |
//! | `crafted` | neither do files made by hand to lead in circles |
//! | `defrag` | what a rewritten file keeps of the old one |
//! | `scrub` | a flipped bit is found where checksums are kept |
//! | `files` | files that bbolt wrote |
//! | `fuzz_corpus` | what a fuzzer has found worth keeping |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod crafted;
mod crash;
mod defrag;
#[path = "../../examples/bolt_tool/dump.rs"]
mod dump;
#[path = "../../fuzz/src/exercise.rs"]
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

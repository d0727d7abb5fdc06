//! The state machine as a whole: what must hold whoever applies the log, wherever it is cut short, and whatever is in it.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `crash` | a power cut at any change leaves the state after some entry, from which the log leads on |
//! | `named_bugs` | bugs that etcd had when power failed |
//! | `members` | members that differ in all that is their own hold the same |
//! | `alarms` | what alarms and the quota refuse |
//! | `rights` | who may do what, and in which order things are asked |
//! | `entries` | old requests, requests that nobody waits for, entries that make no sense |
//! | `conf_changes` | changes of members, made and refused |
//! | `scripts` | golden scripts of applying: `testdata/apply` |
//! | `requests` | what clients ask of a member that runs, and are answered |
//! | `running`, `failing` | a member with its threads and files, and its end, also when something of it fails |
//! | `hostile` | whatever is in the log: no panic, and memory and database agree |
//! | `fuzz_corpus` | what a fuzzer has found worth keeping |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod alarms;
mod conf_changes;
mod crash;
mod entries;
#[path = "../../fuzz/src/exercise.rs"]
mod exercise;
mod failing;
mod fuzz_corpus;
mod hostile;
mod members;
mod named_bugs;
mod requests;
mod rights;
mod running;
mod scripts;
mod support;

//! Tests of the state machine and of a running member, through the public API of the crate.
//!
//! | file | subject |
//! | --- | --- |
//! | `crash` | a power cut at any disk operation: recovery and replay of the log |
//! | `named_bugs` | crash bugs of etcd releases, by their issue numbers |
//! | `determinism` | members with different local schedules reach the same state |
//! | `alarms` | requests that alarms and the quota refuse |
//! | `permissions` | permissions at apply, and the order of the checks |
//! | `entries` | v2 requests, requests without a waiter, invalid entries |
//! | `conf_changes` | applied and refused conf changes |
//! | `scripts` | golden scripts of applying: `testdata/apply` |
//! | `requests` | client requests to a running member |
//! | `lifecycle`, `disk_faults` | start, restart and shutdown of a member; disk errors and panics |
//! | `arbitrary_logs` | arbitrary entries: no panic, and memory matches the database |
//! | `fuzz_corpus` | replay of the fuzzer's corpus |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod alarms;
mod arbitrary_logs;
mod conf_changes;
mod crash;
mod determinism;
mod disk_faults;
mod entries;
mod exercise;
mod fuzz_corpus;
mod lifecycle;
mod named_bugs;
mod permissions;
mod requests;
mod robustness_record;
mod scripts;
mod support;

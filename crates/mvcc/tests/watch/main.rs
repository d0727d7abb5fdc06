//! The guarantees of watch.
//!
//! | file | content |
//! | --- | --- |
//! | `create`, `events`, `bytes` | requests; events of synced watchers; encoding |
//! | `catch_up`, `slow`, `restore` | unsynced watchers, slow clients, a replaced store |
//! | `progress` | progress notifications and requests |
//! | `named_bugs` | bugs that etcd had, by their issue numbers |
//! | `property` | random sequences, compared with the log of all changes |
//! | `threads` | several threads |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod model;

mod bytes;
mod catch_up;
mod create;
mod events;
mod named_bugs;
mod progress;
mod restore;
mod slow;

mod property;
mod threads;

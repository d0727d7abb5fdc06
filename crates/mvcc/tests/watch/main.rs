//! What watchers are promised.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `create`, `events`, `bytes` | requests and their answers; what live watchers get; how it is encoded and split |
//! | `catch_up`, `slow`, `restore` | watchers of the past, clients that do not read, and a store that is replaced |
//! | `progress` | notifications, and answers to requests |
//! | `named_bugs` | what went wrong in etcd once, by its numbers |
//! | `property` | whatever comes in whatever order, against the log |
//! | `threads` | the same with threads |

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

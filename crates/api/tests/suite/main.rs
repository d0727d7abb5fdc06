//! gRPC from end to end, without a socket: real bytes in and out, and a real member behind.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `edge` | which requests are gRPC, and which are for pages |
//! | `calls` | what all calls have in common: framing, limits, deadlines, metrics |
//! | `gateway` | the same as JSON |
//! | `keys` | `KV` |
//! | `leases` | `Lease` |
//! | `watches` | `Watch` |
//! | `users` | `Auth`, and who may do what |
//! | `members` | `Cluster` |
//! | `upkeep` | `Maintenance` and `Health` |
//! | `locks` | `Lock` and `Election` |
//! | `pages` | HTTP: health, metrics, version |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod calls;
mod edge;
mod gateway;
mod keys;
mod leases;
mod locks;
mod members;
mod pages;
mod support;
mod upkeep;
mod users;
mod watches;

//! gRPC, JSON and HTTP end to end without a socket: real bytes in and out, and a real member.
//!
//! | file | covers |
//! | --- | --- |
//! | `router` | the choice between gRPC and HTTP |
//! | `calls` | framing, limits, deadlines, compression and metrics of all calls |
//! | `gateway` | the JSON gateway |
//! | `kv` | `KV` |
//! | `lease` | `Lease` |
//! | `watch` | `Watch` |
//! | `auth` | `Auth`, and the permissions of other methods |
//! | `cluster` | `Cluster` |
//! | `maintenance` | `Maintenance` and `Health` |
//! | `lock_election` | `Lock` and `Election` |
//! | `http` | health, metrics, version |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod auth;
mod calls;
mod cluster;
mod gateway;
mod http;
mod kv;
mod lease;
mod lock_election;
mod maintenance;
mod router;
mod support;
mod watch;

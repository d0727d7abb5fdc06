//! gRPC from end to end, without a socket: real bytes in and out, and a real member behind.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `calls` | what all calls have in common: framing, limits, deadlines, metrics |
//! | `keys` | `KV` |
//! | `leases` | `Lease` |
//! | `watches` | `Watch` |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod calls;
mod keys;
mod leases;
mod support;
mod watches;

//! Additions to hyper's HTTP/2 server: checks on the frames of a client, coalesced writes, and the
//! end of connections whose client no longer answers. See
//! docs/decisions/2026-11-16-http2-guards.md.
//!
//! ```text
//!   socket ── write_coalescer ── guard ── hyper/h2
//!                    └──────── driver ────────┘     polls h2, flushes, times out silent clients
//! ```

mod driver;
mod frames;
mod goaway;
mod guard;
mod header_log;
mod huffman;
mod path_fragments;
mod pings;
mod sliced_body;
mod streams;
mod write_coalescer;

pub(crate) use driver::{DriverError, Http2Driver};
pub(crate) use guard::{GuardLimits, Http2Guard};
pub(crate) use header_log::print_fields;
pub(crate) use sliced_body::SlicedBody;
pub(crate) use write_coalescer::coalesce_writes;

//! JSON, as the gateway reads and writes it: straight from and to the bytes of protobuf, with nothing in between.
//!
//! ```text
//!   {"key":"Zm9v", "limit":"5"}     ─► split ─► read ─►     0a 03 66 6f 6f  18 05
//!   {"count":"5"}                          ◄─ write ◄─      20 05
//! ```
//!
//! What a message looks like is told by the tables of [`proto::shape`]. What is accepted, and in which words it is refused, is what the two libraries of
//! etcd's gateway do one after the other: Go's `encoding/json`, which finds the end of a value ([`split`]), and its `protojson`, which makes a message
//! of it ([`read`]). What is written is compact; the blanks that `protojson` throws in at random, so that nobody relies on its output, are left out.

mod number;
pub(crate) mod read;
pub(crate) mod split;
pub(crate) mod write;

//! The JSON transcoder: translates directly between JSON text and protobuf bytes.
//!
//! ```text
//!   {"key":"Zm9v", "limit":"5"}     ─► split ─► read ─►     0a 03 66 6f 6f  18 05
//!   {"count":"5"}                          ◄─ write ◄─      20 05
//! ```
//!
//! The tables of [`proto::shape`] describe the messages. Grammar and error texts are those of the
//! two Go libraries in etcd's gateway: `encoding/json`, which finds the end of a value ([`split`]),
//! and `protojson`, which translates it ([`read`]). The output is compact, without the spaces that
//! `protojson` inserts at random to keep its users from comparing bytes.

mod number;
pub(crate) mod read;
pub(crate) mod split;
pub(crate) mod write;

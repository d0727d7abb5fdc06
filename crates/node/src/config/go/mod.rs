//! How Go writes values, and reads them.
//!
//! etcd's flags are parsed by Go's standard library, so what is accepted on a command line, and what a refusal says, follows
//! from it. Here is that much of it, and no more:
//!
//! ```text
//!     numbers     42   0x2a   0b101010   1_000              parse error, value out of range
//!     booleans    1 t T TRUE true True  0 f F FALSE false False
//!     durations   300ms   1m30s   1.5h   100µs   -5s   0     time: missing unit in duration "5"
//!     quoting     "a\tb"  "\x00"  "\u200b"
//! ```

mod duration;
mod number;
mod quote;

pub use duration::GoDuration;
pub(crate) use number::{NumberError, parse_bool, parse_decimal, parse_int, parse_uint};
pub(crate) use quote::{quote, quote_bytes, quote_list};

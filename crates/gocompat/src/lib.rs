//! Values and texts as Go's standard library parses and prints them.
//!
//! etcd is written in Go: which flag values it accepts, and what its errors and logs say, follows
//! from Go's `strconv`, `time`, `net` and `net/url` packages. This crate holds the parts that
//! Bowline needs, so that every crate prints the same texts.
//!
//! ```text
//!     duration    300ms   1m30s   1.5h   100µs   -5s   0     time: missing unit in duration "5"
//!     number      42   0x2a   0b101010   1_000               parse error, value out of range
//!                 1 t T TRUE true True  0 f F FALSE false False
//!     quote       "a\tb"  "\x00"  "\u200b"  ["a" "b"]  'x'
//!     os_error    no such file or directory       (Rust: No such file or directory (os error 2))
//!     host_port   10.0.0.1:2380   [::1]:2380   :2380
//!     query       a=1&b=x+y%21   a: "1", b: "x y!"
//!     url         http://[fe80::1%25eth0]:2380    parse "http://a:b": invalid port ":b" after host
//!     member_url  http://10.0.0.1:2380            URL must not contain a path: http://a:1/
//! ```
//!
//! The expected values of the tests were printed by Go 1.26. The crate does no I/O. Of etcd it
//! knows only the rules for the URLs of members, which several crates need.

mod duration;
mod host_port;
pub mod member_url;
mod number;
mod os_error;
mod query;
mod quote;
mod url;

pub use duration::{DurationError, GoDuration};
pub use host_port::{HostPortError, bracketed, join_host_port, parse_host_port, split_host_port};
pub use number::{NumberError, parse_bool, parse_decimal, parse_int, parse_uint};
pub use os_error::{lookup_error_text, os_error_text};
pub use query::query_pairs;
pub use quote::{quote, quote_bytes, quote_char, quote_list};
pub use url::{
    GoUrl, RequestPath, RequestTarget, UrlParseError, clean_path, path_unescape, query_unescape,
};

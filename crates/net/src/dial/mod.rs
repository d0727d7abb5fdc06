//! Outgoing connections: from a URL to a connected stream.

mod client_stream;
mod dialer;
mod target;

pub use client_stream::ClientStream;
pub use dialer::{ADDRESSES_MAX, DialError, Dialer, HANDSHAKE_TIMEOUT};
pub use target::{Target, TargetError, URL_BYTES_MAX};

//! Outgoing connections: from a URL to a connected stream.

mod client_stream;
mod dialer;
mod proxy;
mod target;

pub use client_stream::{ClientStream, Forwarding};
pub use dialer::{ADDRESSES_MAX, DialError, Dialer, HANDSHAKE_TIMEOUT};
pub use proxy::{
    CONNECT_BYTES_MAX, CONNECT_TIMEOUT, Proxy, ProxyError, ProxySettings, TunnelError,
};
pub use target::{Target, TargetError, URL_BYTES_MAX};

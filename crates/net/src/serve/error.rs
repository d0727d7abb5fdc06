//! Reasons for which a connection ends before its client closes it.

use std::io;

use crate::http2::DriverError;
use crate::open::HandshakeError;

/// The reason a connection ended before its client closed it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("the client sent nothing that identifies its protocol in time")]
    Silent,
    #[error("too many connections are pending, and this was the oldest of them")]
    Evicted,
    #[error("too many response bytes are unread, and this connection's were the oldest")]
    Unread,
    #[error("the client speaks TLS, which this listener does not")]
    Tls,
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("the client speaks HTTP/1, which this listener does not")]
    Http1,
    #[error("the client sent a request that is refused: {0}")]
    Refused(&'static str),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Http2(#[from] DriverError),
}

impl ConnectionError {
    /// Returns whether the client did not speak HTTP. Failed handshakes are not included: they are
    /// logged where they fail.
    pub(crate) fn is_protocol_error(&self) -> bool {
        match self {
            Self::Silent | Self::Evicted | Self::Tls | Self::Refused(_) => true,
            Self::Http(error) => error.is_parse(),
            Self::Unread | Self::Handshake(_) | Self::Http1 | Self::Io(_) | Self::Http2(_) => false,
        }
    }
}

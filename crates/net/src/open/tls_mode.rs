//! Whether a listener speaks TLS.

use std::sync::Arc;

/// Whether a listener speaks TLS.
#[derive(Clone, Debug, Default)]
pub enum TlsMode {
    /// Plain text only.
    #[default]
    Disabled,
    /// TLS only.
    Required(ListenerTls),
    /// TLS with clients that begin with it, plain text with others.
    Optional(ListenerTls),
}

/// The TLS settings of a listener.
#[derive(Clone, Debug)]
pub struct ListenerTls {
    /// The certificates, and the rules by which clients are trusted.
    pub server: Arc<tls::ServerTls>,
    /// Whether a client certificate that names hosts or addresses must be for the one that the
    /// client connects from.
    pub checks_origin: bool,
}

impl TlsMode {
    /// Returns the TLS settings, if TLS is spoken.
    pub fn tls(&self) -> Option<&ListenerTls> {
        match self {
            Self::Disabled => None,
            Self::Required(tls) | Self::Optional(tls) => Some(tls),
        }
    }

    /// Returns whether connections without TLS are served.
    pub fn allows_plain(&self) -> bool {
        !matches!(self, Self::Required(_))
    }
}

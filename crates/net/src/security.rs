//! Whether a listener speaks TLS.

use std::sync::Arc;

/// Whether a listener speaks TLS.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// It does not.
    #[default]
    Plain,
    /// It speaks nothing else.
    Tls(Tls),
    /// It does with those who begin with it, and with others not.
    Either(Tls),
}

/// How TLS is spoken.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Certificates, and who is let in.
    pub side: Arc<tls::ServerSide>,
    /// Whether the certificate of a client, if it names hosts or addresses, must be for the one it comes from.
    pub checks_origin: bool,
}

impl Security {
    /// How TLS is spoken, if it is.
    pub fn tls(&self) -> Option<&Tls> {
        match self {
            Self::Plain => None,
            Self::Tls(tls) | Self::Either(tls) => Some(tls),
        }
    }

    /// Whether connections without TLS are served.
    pub fn allows_plain(&self) -> bool {
        !matches!(self, Self::Tls(_))
    }
}

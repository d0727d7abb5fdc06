//! Tokens: what stands for a user once a password was checked.
//!
//! Which kind there is, an option string says, the same on all members:
//!
//! | option | token | kept |
//! | --- | --- | --- |
//! | (empty) | none: nobody can authenticate but by certificate | |
//! | `simple` | 16 letters and the index of the log entry: `fbCZpKxDEEcsxGSh.41` | by every member, in memory ([`simple`]) |
//! | `jwt,sign-method=ES256,pub-key=...,priv-key=...,ttl=5m` | signed JSON | by nobody ([`jwt`]) |

mod claims;
mod jwt;
mod keys;
mod method;
mod options;
mod pem;
mod simple;

use std::io;
use std::time::Duration;

use env::{Clock, Random};
use types::Index;

use crate::error::{Error, OptionsError, OptionsReason};
use crate::info::AuthInfo;
pub use jwt::JwtTokens;
pub use options::KEY_FILE_BYTES_MAX;
pub use simple::{SIMPLE_TOKEN_TTL_DEFAULT, SimpleTokens, TOKENS_MAX};

/// Makes tokens, and knows whose they are.
#[derive(Debug)]
pub enum Tokens {
    /// There are none.
    Nop,
    /// Letters at random, which every member remembers.
    Simple(SimpleTokens),
    /// Signed statements, which nobody has to remember.
    Jwt(JwtTokens),
}

impl Tokens {
    /// Tokens as an option string asks for. Simple ones expire when they were not used for `simple_ttl`; key files are read
    /// through `read`, by the names in the options.
    pub fn parse(
        options: &str,
        simple_ttl: Duration,
        read: impl FnMut(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Tokens, OptionsError> {
        let (kind, options) = options::split(options).map_err(OptionsError::Invalid)?;
        match kind {
            "" => Ok(Tokens::Nop),
            "simple" => {
                tracing::warn!("simple token is not cryptographically signed");
                Ok(Tokens::simple(simple_ttl))
            }
            "jwt" => Ok(Tokens::Jwt(JwtTokens::new(&options, read)?)),
            other => Err(OptionsError::Invalid(OptionsReason::UnknownType(other.to_owned()))),
        }
    }

    /// Simple tokens, which expire when they were not used for a time; zero is the default.
    #[must_use]
    pub fn simple(ttl: Duration) -> Tokens {
        Tokens::Simple(SimpleTokens::new(ttl))
    }

    /// Tokens are only assigned while authentication is enabled, and forgotten when it is disabled.
    pub(crate) fn set_enabled(&self, enabled: bool) {
        if let Tokens::Simple(tokens) = self {
            tokens.set_enabled(enabled);
        }
    }

    pub(crate) fn invalidate_user(&self, name: &str) {
        self.invalidate(|user| user == name);
    }

    /// Forgets the tokens of all users of whom that is so.
    pub(crate) fn invalidate(&self, gone: impl Fn(&str) -> bool) {
        if let Tokens::Simple(tokens) = self {
            tokens.invalidate(gone);
        }
    }

    pub(crate) fn prefix(&self, random: &mut dyn Random) -> io::Result<String> {
        match self {
            Tokens::Simple(_) => simple::prefix(random),
            Tokens::Nop | Tokens::Jwt(_) => Ok(String::new()),
        }
    }

    pub(crate) fn assign(
        &self,
        info: AuthInfo,
        prefix: &str,
        index: Index,
        clock: &dyn Clock,
    ) -> Result<String, Error> {
        match self {
            Tokens::Nop => Err(Error::AuthFailed),
            Tokens::Simple(tokens) => {
                Ok(tokens.assign(info.username, prefix, index, clock.monotonic()))
            }
            Tokens::Jwt(tokens) => tokens.sign(&info, unix_time(clock)),
        }
    }

    /// The entry that must have been applied before a token can be known. None if the token cannot be one; some none if there is no such
    /// entry.
    pub(crate) fn index_of(&self, token: &str) -> Option<Option<Index>> {
        match self {
            Tokens::Simple(_) => simple::index_of(token).map(Some),
            Tokens::Nop | Tokens::Jwt(_) => Some(None),
        }
    }

    /// Whose token it is. `revision` is that of now: a signed token has its own.
    pub(crate) fn info(&self, token: &str, revision: u64, clock: &dyn Clock) -> Option<AuthInfo> {
        match self {
            Tokens::Nop => None,
            Tokens::Simple(tokens) => {
                let username = tokens.user_of(token, clock.monotonic())?;
                Some(AuthInfo { username, revision })
            }
            Tokens::Jwt(tokens) => tokens.verify(token, unix_time(clock)),
        }
    }
}

/// The date, as time since 1970.
fn unix_time(clock: &dyn Clock) -> Duration {
    clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

//! Tokens: stand for a user whose password was checked.
//!
//! An option string, equal on all members, selects the kind (`--auth-token`):
//!
//! | option | token | stored |
//! | --- | --- | --- |
//! | (empty) | none: users authenticate by certificate only | |
//! | `simple` | letters and a log index: `fbCZpKxDEEcsxGSh.41` | in memory ([`simple`]) |
//! | `jwt,sign-method=ES256,pub-key=...,priv-key=...,ttl=5m` | signed JSON | not stored ([`jwt`]) |

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

/// Assigns tokens and finds their users.
#[derive(Debug)]
pub enum Tokens {
    /// No tokens.
    Nop,
    /// Random letters, stored by every member.
    Simple(SimpleTokens),
    /// Signed claims, which no member has to store.
    Jwt(JwtTokens),
}

impl Tokens {
    /// Parses an option string. Simple tokens expire after `simple_ttl` without use. `read` reads
    /// the key files named by the options.
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

    /// Creates simple tokens that expire after a time without use; zero selects the default.
    #[must_use]
    pub fn simple(ttl: Duration) -> Tokens {
        Tokens::Simple(SimpleTokens::new(ttl))
    }

    /// Starts to accept simple tokens, or drops all of them.
    pub(crate) fn set_enabled(&self, enabled: bool) {
        if let Tokens::Simple(tokens) = self {
            tokens.set_enabled(enabled);
        }
    }

    pub(crate) fn invalidate_user(&self, name: &str) {
        self.invalidate(|user| user == name);
    }

    /// Drops the tokens of all users that match.
    pub(crate) fn invalidate(&self, matches: impl Fn(&str) -> bool) {
        if let Tokens::Simple(tokens) = self {
            tokens.invalidate(matches);
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

    /// Returns the index of the entry that assigned a token: `Some(None)` for signed tokens, `None`
    /// for a malformed one.
    pub(crate) fn index_of(&self, token: &str) -> Option<Option<Index>> {
        match self {
            Tokens::Simple(_) => simple::index_of(token).map(Some),
            Tokens::Nop | Tokens::Jwt(_) => Some(None),
        }
    }

    /// Returns the user of a token. `revision` is the current auth revision; a signed token carries
    /// its own.
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

/// Returns the time since 1970.
fn unix_time(clock: &dyn Clock) -> Duration {
    clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

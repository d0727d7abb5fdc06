//! Signed tokens: JSON Web Tokens, interchangeable with etcd's.
//!
//! Members with the private key sign tokens; all members verify them, with the public key or the
//! same secret. No member stores them: a token is valid until it expires. It carries the auth
//! revision at which it was signed, so any change of users or roles makes requests with it fail,
//! and their clients authenticate again.
//!
//! `keys` parses keys, `claims` the JSON; one cryptography library does the rest.
//!
//! Differences to etcd: an RSA key needs at least 2048 bits, and a key that does not fit the method
//! is refused at start instead of at its first use.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::error::{Error, OptionsError};
use crate::info::AuthInfo;
use crate::token::claims::{self, ParsedToken};
use crate::token::keys::Keys;
use crate::token::method::Method;
use crate::token::options::JwtOptions;

/// Signs and verifies tokens.
#[derive(Debug)]
pub struct JwtTokens {
    method: Method,
    keys: Keys,
    /// The lifetime in nanoseconds.
    ttl: i64,
}

impl JwtTokens {
    /// Reads the keys that the options name.
    pub(crate) fn new(
        options: &BTreeMap<&str, &str>,
        read: impl FnMut(&str) -> io::Result<Vec<u8>>,
    ) -> Result<JwtTokens, OptionsError> {
        let options = JwtOptions::read(options, read)?;
        Ok(JwtTokens { method: options.method, keys: Keys::read(&options)?, ttl: options.ttl })
    }

    /// Signs a token for a user. `now` is the time since 1970.
    pub(crate) fn sign(&self, info: &AuthInfo, now: Duration) -> Result<String, Error> {
        let message = claims::message(self.method.name, info, self.expiry(now));
        let message = message.ok_or(Error::Signing)?;
        let signature = self.keys.sign(message.as_bytes())?;
        Ok(claims::token(&message, &signature))
    }

    /// Returns the user of a token, or `None` if it is invalid.
    pub(crate) fn verify(&self, token: &str, now: Duration) -> Option<AuthInfo> {
        let token = ParsedToken::parse(token)?;
        let is_valid = token.is_signed_by(self.method.name)
            && self.keys.verify(token.message.as_bytes(), &token.signature)
            && token.is_valid_at(now);
        if is_valid { token.info() } else { None }
    }

    /// Returns when a token signed now expires, in seconds since 1970.
    fn expiry(&self, now: Duration) -> i64 {
        const SECOND: i64 = 1_000_000_000;
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        now.saturating_add(self.ttl).div_euclid(SECOND)
    }
}

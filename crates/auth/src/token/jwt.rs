//! Signed tokens: JSON Web Tokens, the same as etcd's in both directions.
//!
//! A member that has the private key makes them, and any member checks them, with the public half or the same secret. None has to remember any:
//! a token is good until it expires. It says at which auth revision it was made, and any change of users and roles makes the requests that
//! it comes with fail, so that their clients authenticate again.
//!
//! All of it is done with one cryptography library; keys and their forms are in `keys`, the JSON in `claims`.
//!
//! Differences to etcd: an RSA key has at least 2048 bits, and a key that does not fit the method is refused at start rather than when it is
//! first used.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::error::{Error, OptionsError};
use crate::info::AuthInfo;
use crate::token::claims::{self, Parts};
use crate::token::keys::Keys;
use crate::token::method::Method;
use crate::token::options::Options;

/// Makes and checks signed tokens.
#[derive(Debug)]
pub struct JwtTokens {
    method: Method,
    keys: Keys,
    /// In nanoseconds.
    ttl: i64,
}

impl JwtTokens {
    /// With the keys that options name.
    pub(crate) fn new(
        options: &BTreeMap<&str, &str>,
        read: impl FnMut(&str) -> io::Result<Vec<u8>>,
    ) -> Result<JwtTokens, OptionsError> {
        let options = Options::read(options, read)?;
        Ok(JwtTokens { method: options.method, keys: Keys::read(&options)?, ttl: options.ttl })
    }

    /// A token for a user. `now` is the time since 1970.
    pub(crate) fn sign(&self, info: &AuthInfo, now: Duration) -> Result<String, Error> {
        let message = claims::message(self.method.name, info, self.expiry(now));
        let message = message.ok_or(Error::Signing)?;
        let signature = self.keys.sign(message.as_bytes())?;
        Ok(claims::token(&message, &signature))
    }

    /// Who a token is from. None if it is not good.
    pub(crate) fn verify(&self, token: &str, now: Duration) -> Option<AuthInfo> {
        let parts = Parts::of(token)?;
        let good = parts.is_signed_by(self.method.name)
            && self.keys.verify(parts.message.as_bytes(), &parts.signature)
            && parts.is_good_at(now);
        if good { parts.info() } else { None }
    }

    /// When a token that is made now expires, in seconds.
    fn expiry(&self, now: Duration) -> i64 {
        const SECOND: i64 = 1_000_000_000;
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        now.saturating_add(self.ttl).div_euclid(SECOND)
    }
}

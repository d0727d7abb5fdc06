//! The options of signed tokens: `sign-method`, `pub-key`, `priv-key`, `ttl`.

use std::collections::BTreeMap;
use std::io;

use gocompat::GoDuration;

use crate::error::{OptionsError, OptionsReason};
use crate::token::method::Method;

/// The most bytes of a key file.
pub const KEY_FILE_BYTES_MAX: usize = 1 << 20;

/// The default lifetime of a token: 5 minutes, in nanoseconds.
const TTL_DEFAULT: i64 = 300_000_000_000;

const SIGN_METHOD: &str = "sign-method";
const PUBLIC_KEY: &str = "pub-key";
const PRIVATE_KEY: &str = "priv-key";
const TTL: &str = "ttl";

/// Parsed options, with the contents of the key files.
#[derive(Debug)]
pub(crate) struct JwtOptions {
    pub(crate) method: Method,
    /// Empty if not given.
    pub(crate) public_key: Vec<u8>,
    /// Empty if not given.
    pub(crate) private_key: Vec<u8>,
    /// In nanoseconds. With zero or less, every token is expired.
    pub(crate) ttl: i64,
}

/// Splits `type,name=value,...`.
pub(crate) fn split(text: &str) -> Result<(&str, BTreeMap<&str, &str>), OptionsReason> {
    let mut parts = text.split(',');
    let kind = parts.next().unwrap_or_default();
    let mut options = BTreeMap::new();
    for part in parts {
        let pair = part.split_once('=').filter(|(_, value)| !value.contains('='));
        let (name, value) = pair.ok_or_else(|| OptionsReason::NotAPair(part.to_owned()))?;
        if options.insert(name, value).is_some() {
            return Err(OptionsReason::Twice(name.to_owned()));
        }
    }
    Ok((kind, options))
}

impl JwtOptions {
    /// Parses the options. Compat: as in etcd, an empty value counts as not given, and unknown
    /// options only cause a warning.
    pub(crate) fn read(
        options: &BTreeMap<&str, &str>,
        mut read: impl FnMut(&str) -> io::Result<Vec<u8>>,
    ) -> Result<JwtOptions, OptionsError> {
        for name in options.keys() {
            if ![SIGN_METHOD, PUBLIC_KEY, PRIVATE_KEY, TTL].contains(name) {
                tracing::warn!(name, "unknown JWT option");
            }
        }
        let value_of = |name| options.get(name).copied().unwrap_or_default();
        let ttl = match value_of(TTL) {
            "" => TTL_DEFAULT,
            text => GoDuration::parse(text).map_err(|_| invalid_duration(text))?.nanos(),
        };
        let public_key = read_key(value_of(PUBLIC_KEY), &mut read)?;
        let private_key = read_key(value_of(PRIVATE_KEY), &mut read)?;
        Ok(JwtOptions {
            method: Method::named(value_of(SIGN_METHOD))?,
            public_key,
            private_key,
            ttl,
        })
    }
}

fn invalid_duration(text: &str) -> OptionsError {
    OptionsError::Invalid(OptionsReason::Duration(text.to_owned()))
}

fn read_key(
    file: &str,
    read: &mut impl FnMut(&str) -> io::Result<Vec<u8>>,
) -> Result<Vec<u8>, OptionsError> {
    if file.is_empty() {
        return Ok(Vec::new());
    }
    let reason = match read(file) {
        Ok(bytes) if bytes.len() <= KEY_FILE_BYTES_MAX => return Ok(bytes),
        Ok(_) => OptionsReason::TooLong { file: file.to_owned(), max: KEY_FILE_BYTES_MAX },
        Err(source) => OptionsReason::File { file: file.to_owned(), source },
    };
    Err(OptionsError::Invalid(reason))
}

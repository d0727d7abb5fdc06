//! The options of signed tokens: `sign-method`, `pub-key`, `priv-key`, `ttl`.

use std::collections::BTreeMap;
use std::io;

use gocompat::GoDuration;

use crate::error::{OptionsError, OptionsReason};
use crate::token::method::Method;

/// Most bytes of a key file.
pub const KEY_FILE_BYTES_MAX: usize = 1 << 20;

/// How long a token is good for unless told otherwise: 5 minutes, in nanoseconds.
const TTL_DEFAULT: i64 = 300_000_000_000;

const SIGN_METHOD: &str = "sign-method";
const PUBLIC_KEY: &str = "pub-key";
const PRIVATE_KEY: &str = "priv-key";
const TTL: &str = "ttl";

/// Options as meant: with the contents of files in place of their names.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) method: Method,
    /// Empty for none, like the next.
    pub(crate) public_key: Vec<u8>,
    pub(crate) private_key: Vec<u8>,
    /// In nanoseconds. Not above zero, and no token is good.
    pub(crate) ttl: i64,
}

/// Takes `type,name=value,...` apart.
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

impl Options {
    /// Reads options. As in etcd, an option without a value is one that is not given, and those that nobody knows are only warned of.
    pub(crate) fn read(
        options: &BTreeMap<&str, &str>,
        mut read: impl FnMut(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Options, OptionsError> {
        for name in options.keys() {
            if ![SIGN_METHOD, PUBLIC_KEY, PRIVATE_KEY, TTL].contains(name) {
                tracing::warn!(name, "unknown JWT option");
            }
        }
        let given = |name| options.get(name).copied().unwrap_or_default();
        let ttl = match given(TTL) {
            "" => TTL_DEFAULT,
            text => GoDuration::parse(text).map_err(|_| invalid_duration(text))?.nanos(),
        };
        let public_key = read_key(given(PUBLIC_KEY), &mut read)?;
        let private_key = read_key(given(PRIVATE_KEY), &mut read)?;
        Ok(Options { method: Method::named(given(SIGN_METHOD))?, public_key, private_key, ttl })
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

//! The JSON of a signed token.
//!
//! ```text
//!   eyJhbGciOiJFUzI1NiIs… . eyJleHAiOjE3MDAwMDAwMDAsInJldmlzaW9uIjo3LCJ1c2Vy… . signature
//!   {"alg":"ES256",         {"exp":1700000000,"revision":7,"username":"alice"}   of the two parts
//!    "typ":"JWT"}                                                               before it
//! ```
//!
//! Each part is URL-safe base64 without padding.

use std::time::Duration;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::info::AuthInfo;

/// The longest token that is parsed, in bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Base64 as Go decodes it: surplus bits of the last character are ignored.
const URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// The largest date in seconds: later ones do not fit into 64 bits.
const SECONDS_MAX: f64 = 9.2e18;

#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    typ: &'a str,
}

#[derive(Serialize)]
struct Claims<'a> {
    exp: i64,
    revision: u64,
    username: &'a str,
}

/// A parsed token. Not to be trusted before its signature was verified.
pub(crate) struct ParsedToken<'t> {
    /// The signed text: header and claims.
    pub(crate) message: &'t str,
    pub(crate) signature: Vec<u8>,
    header: Map<String, Value>,
    claims: Map<String, Value>,
}

impl<'t> ParsedToken<'t> {
    /// Returns `None` for a malformed token.
    pub(crate) fn parse(token: &'t str) -> Option<ParsedToken<'t>> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        Some(ParsedToken {
            message,
            signature: URL.decode(signature).ok()?,
            header: object(header)?,
            claims: object(claims)?,
        })
    }

    /// Returns whether the header names a signing method.
    pub(crate) fn is_signed_by(&self, method: &str) -> bool {
        self.header.get("alg").and_then(Value::as_str) == Some(method)
    }

    /// Returns whether a time is before `exp` and not before `nbf`; both are optional.
    pub(crate) fn is_valid_at(&self, now: Duration) -> bool {
        let now = now.as_secs_f64();
        let (Some(expires), Some(begins)) = (self.date("exp"), self.date("nbf")) else {
            return false;
        };
        expires.is_none_or(|expires| now < expires) && begins.is_none_or(|begins| now >= begins)
    }

    /// Returns the user and the auth revision of the claims.
    pub(crate) fn info(&self) -> Option<AuthInfo> {
        let username = self.claims.get("username")?.as_str()?.to_owned();
        // Compat: etcd reads all numbers as floats, so revisions past 2^53 are rounded.
        let revision = go_uint64(self.claims.get("revision")?.as_f64()?);
        Some(AuthInfo { username, revision })
    }

    /// Returns a date in whole seconds: `Some(None)` if it is missing or zero, `None` if it is not
    /// a date.
    fn date(&self, claim: &str) -> Option<Option<f64>> {
        let Some(value) = self.claims.get(claim) else { return Some(None) };
        let seconds = value.as_f64()?;
        (seconds.abs() < SECONDS_MAX).then(|| (seconds != 0.0).then(|| seconds.floor()))
    }
}

/// Converts a number to an unsigned one, as etcd does: a negative one wraps around.
///
/// Compat: as in etcd, a token with a negative revision is newer than any revision, and a read with
/// it fails with "revision of auth store is old". Only a holder of the key can sign one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "drops the fraction, and saturates beyond 64 bits"
)]
fn go_uint64(number: f64) -> u64 {
    if number < 0.0 { (number as i64).cast_unsigned() } else { number as u64 }
}

/// Encodes header and claims: the signed text of a token.
pub(crate) fn message(method: &str, info: &AuthInfo, expires: i64) -> Option<String> {
    let header = encode(&Header { alg: method, typ: "JWT" })?;
    let (revision, username) = (info.revision, &info.username);
    let claims = encode(&Claims { exp: expires, revision, username })?;
    Some(format!("{header}.{claims}"))
}

/// Appends the signature.
pub(crate) fn token(message: &str, signature: &[u8]) -> String {
    format!("{message}.{}", URL.encode(signature))
}

fn encode(part: &impl Serialize) -> Option<String> {
    Some(URL.encode(serde_json::to_vec(part).ok()?))
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(claim: &str) -> Option<u64> {
        let claims = format!(r#"{{"exp":1700000000,"revision":{claim},"username":"alice"}}"#);
        let token = format!("{}.{}.", URL.encode(r#"{"alg":"HS256"}"#), URL.encode(claims));
        Some(ParsedToken::parse(&token)?.info()?.revision)
    }

    /// With etcd on amd64, tokens with these revisions were sent: 0 is refused as an empty user
    /// name, and the large ones pass as newer than the auth store.
    #[test]
    fn a_negative_revision_wraps_around() {
        assert_eq!(revision("-1"), Some(u64::MAX));
        assert_eq!(revision("-5.9"), Some(u64::MAX - 4));
        assert_eq!(revision("-1e30"), Some(1 << 63));
        assert_eq!(revision("1e30"), Some(u64::MAX));
        assert_eq!([revision("-0.5"), revision("0.7"), revision("0")], [Some(0); 3]);
        assert_eq!(revision("7"), Some(7));
        assert_eq!([revision("1e400"), revision("\"7\"")], [None; 2]);
    }
}

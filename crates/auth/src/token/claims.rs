//! What a signed token says.
//!
//! ```text
//!   eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9 . eyJleHAiOjE3MDAwMDAwMDAsInJldmlzaW9uIjo3LCJ1c2VybmFtZSI6ImFsaWNlIn0 . signature
//!   {"alg":"ES256","typ":"JWT"}            {"exp":1700000000,"revision":7,"username":"alice"}                     of all before it
//! ```
//!
//! Each part is base64 for URLs, without padding.

use std::time::Duration;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::info::AuthInfo;

/// Most bytes of a token that are looked at.
pub(crate) const TOKEN_BYTES_MAX: usize = 64 << 10;

/// As etcd's token library reads it: bits that are left over in the last character do not matter.
const URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Dates past this are none: they do not fit into the 64 bits that seconds are counted in.
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

/// A token that came in, taken apart. Nothing in it is to be believed before the signature was checked.
pub(crate) struct Parts<'t> {
    /// What is signed.
    pub(crate) message: &'t str,
    pub(crate) signature: Vec<u8>,
    header: Map<String, Value>,
    claims: Map<String, Value>,
}

impl<'t> Parts<'t> {
    /// None if it is no token.
    pub(crate) fn of(token: &'t str) -> Option<Parts<'t>> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        Some(Parts {
            message,
            signature: URL.decode(signature).ok()?,
            header: object(header)?,
            claims: object(claims)?,
        })
    }

    /// Whether it says to be signed by a method.
    pub(crate) fn is_signed_by(&self, method: &str) -> bool {
        self.header.get("alg").and_then(Value::as_str) == Some(method)
    }

    /// Whether it is good at a time. It is before it expires, if it does, and from its beginning on, if it has one.
    pub(crate) fn is_good_at(&self, now: Duration) -> bool {
        let now = now.as_secs_f64();
        let (Some(expires), Some(begins)) = (self.date("exp"), self.date("nbf")) else {
            return false;
        };
        expires.is_none_or(|expires| now < expires) && begins.is_none_or(|begins| now >= begins)
    }

    /// Who it says to be from.
    pub(crate) fn info(&self) -> Option<AuthInfo> {
        let username = self.claims.get("username")?.as_str()?.to_owned();
        // Compat: etcd reads all numbers as floats, so revisions past 2^53 are rounded.
        let revision = self.claims.get("revision")?.as_f64()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "what does not fit is the nearest that does: nobody's revision, or one that is still to come"
        )]
        Some(AuthInfo { username, revision: revision as u64 })
    }

    /// A date in whole seconds. None if it is no date; some none if it is missing, or zero.
    fn date(&self, claim: &str) -> Option<Option<f64>> {
        let Some(value) = self.claims.get(claim) else { return Some(None) };
        let seconds = value.as_f64()?;
        (seconds.abs() < SECONDS_MAX).then(|| (seconds != 0.0).then(|| seconds.floor()))
    }
}

/// What is signed to make a token.
pub(crate) fn message(method: &str, info: &AuthInfo, expires: i64) -> Option<String> {
    let header = encode(&Header { alg: method, typ: "JWT" })?;
    let (revision, username) = (info.revision, &info.username);
    let claims = encode(&Claims { exp: expires, revision, username })?;
    Some(format!("{header}.{claims}"))
}

/// The token.
pub(crate) fn token(message: &str, signature: &[u8]) -> String {
    format!("{message}.{}", URL.encode(signature))
}

fn encode(part: &impl Serialize) -> Option<String> {
    Some(URL.encode(serde_json::to_vec(part).ok()?))
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL.decode(part).ok()?).ok()
}

//! The settings of a discovery service.

use std::sync::Arc;
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};

use crate::error::JoinError;

/// The `--discovery-*` flags except those for DNS, and settings that only a configuration file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The token of the new cluster.
    pub token: String,
    /// The endpoints of the discovery service: URLs or `host:port`.
    pub endpoints: Vec<String>,
    /// The time to connect to an endpoint.
    pub dial_timeout: Duration,
    /// The proxies to connect through.
    pub proxies: Arc<net::ProxySettings>,
    /// The time for a request.
    pub request_timeout: Duration,
    /// The silence after which an endpoint is pinged; at least ten seconds.
    pub keepalive_time: Duration,
    /// The time for the answer to a ping.
    pub keepalive_timeout: Duration,
    /// The TLS settings of endpoints without a scheme; `None` for plain text.
    pub tls: Option<tls::Info>,
    /// The limit on requests, in bytes; 2 MiB by default.
    pub request_bytes_max: Option<usize>,
    /// The limit on responses, in bytes; [`ANSWER_BYTES_MAX`](crate::ANSWER_BYTES_MAX) by default.
    pub answer_bytes_max: Option<usize>,
    /// The user that sends the requests, if any.
    pub user: User,
}

/// A user of the discovery service. Fields that are not set are empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
    /// A token issued elsewhere, instead of name and password.
    pub token: String,
}

/// The credential of a user.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    None,
    Password { name: String, password: String },
    Token(MetadataValue<Ascii>),
}

impl Credential {
    /// Returns whether a stale token can be replaced.
    pub(crate) fn is_renewable(&self) -> bool {
        !matches!(self, Credential::Token(_))
    }
}

impl User {
    /// Compat: as in etcd's client, a name without a password is ignored.
    pub(crate) fn credential(&self) -> Result<Credential, JoinError> {
        let User { name, password, token } = self.clone();
        match (name.is_empty(), password.is_empty(), token.is_empty()) {
            (true, true, false) => {
                token.parse().map(Credential::Token).map_err(|_| JoinError::Token)
            }
            (_, _, false) => Err(JoinError::TwoCredentials),
            (false, false, true) => Ok(Credential::Password { name, password }),
            _ => Ok(Credential::None),
        }
    }
}

/// Omits the password and the token.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(name: &str, password: &str, token: &str) -> Result<Credential, String> {
        let user = User { name: name.into(), password: password.into(), token: token.into() };
        user.credential().map_err(|error| error.to_string())
    }

    #[test]
    fn a_user_has_a_password_or_a_token() {
        assert!(credential("", "", "") == Ok(Credential::None));
        assert!(credential("u", "", "") == Ok(Credential::None));
        assert!(credential("", "p", "") == Ok(Credential::None));
        let password = Credential::Password { name: "u".into(), password: "p".into() };
        assert!(password.is_renewable() && credential("u", "p", "") == Ok(password));
        let token = Credential::Token(MetadataValue::from_static("t"));
        assert!(!token.is_renewable() && credential("", "", "t") == Ok(token));
        let two = "Username/Password and Token configurations are mutually exclusive";
        for (name, password) in [("u", ""), ("", "p"), ("u", "p")] {
            assert!(credential(name, password, "t") == Err(two.to_owned()));
        }
        assert!(credential("", "", "a\nb").is_err(), "invalid in a header");
    }

    #[test]
    fn secrets_are_not_printed() {
        let user = User { name: "u".into(), password: "hidden".into(), token: "hidden".into() };
        assert_eq!(format!("{user:?}"), "User { name: \"u\", .. }");
    }
}

//! Whom to ask, and how.

use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};

use crate::error::JoinError;

/// The flags `--discovery-*`, but for those about DNS, and what only a configuration file can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name of the cluster that is about to begin.
    pub token: String,
    /// Members of the cluster that keeps the list: URLs, or `host:port`.
    pub endpoints: Vec<String>,
    /// How long calling one of them may take.
    pub dial_timeout: Duration,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// How long nothing may be heard before one is pinged; at least ten seconds.
    pub keepalive_time: Duration,
    /// How long the answer to a ping may take.
    pub keepalive_timeout: Duration,
    /// How TLS is spoken with those whose URL does not say otherwise; `None` if it is not.
    pub tls: Option<tls::Info>,
    /// How many bytes a request may have; 2 MiB if nobody says so.
    pub request_bytes_max: Option<usize>,
    /// How many bytes an answer may have; [`ANSWER_BYTES_MAX`](crate::ANSWER_BYTES_MAX) if nobody says so.
    pub answer_bytes_max: Option<usize>,
    /// Who asks, if that matters.
    pub user: User,
}

/// A user of the cluster that keeps the list, as written: what was not is empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
    /// A token, made by whoever the cluster trusts, in place of the two.
    pub token: String,
}

/// What a user has to show.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    None,
    Password { name: String, password: String },
    Token(MetadataValue<Ascii>),
}

impl Credential {
    /// Whether there can be another token once one counts no more.
    pub(crate) fn is_renewable(&self) -> bool {
        !matches!(self, Credential::Token(_))
    }
}

impl User {
    /// Compat: as in etcd's client, a name without a password is nobody's.
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

/// A password is nothing to print, nor is a token.
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
        assert!(credential("", "", "a\nb").is_err(), "which no header could carry");
    }

    #[test]
    fn secrets_are_not_printed() {
        let user = User { name: "u".into(), password: "hidden".into(), token: "hidden".into() };
        assert_eq!(format!("{user:?}"), "User { name: \"u\", .. }");
    }
}

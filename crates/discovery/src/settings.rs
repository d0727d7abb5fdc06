//! Whom to ask, and how.

use std::time::Duration;

/// The flags `--discovery-*`, but for those about DNS.
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
    /// Who asks, if that matters.
    pub user: Option<User>,
}

/// A user of the cluster that keeps the list.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}

/// A password is nothing to print.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

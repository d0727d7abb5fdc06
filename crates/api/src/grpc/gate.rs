//! What every call has to pass before its handler.
//!
//! ```text
//!   a learner          serves Status, serializable Range and Snapshot, and nothing else
//!   client-api-version counted
//!   hasleader: true    is refused without a leader, and streams with it end when there was none for long
//!   token              says who asks; or authorization, which may say Bearer before it
//!   a certificate      says who asks, unless it is the gateway that asks for somebody (grpcgateway-accept)
//! ```

use http::{HeaderMap, HeaderName, HeaderValue};
use net::Connection;
use server::Credentials;

use super::Shared;
use super::errors::Canonical;
use super::rpc::Kind;

const HAS_LEADER: HeaderName = HeaderName::from_static("hasleader");
const CLIENT_API_VERSION: HeaderName = HeaderName::from_static("client-api-version");
const TOKEN: HeaderName = HeaderName::from_static("token");
const AUTHORIZATION: HeaderName = http::header::AUTHORIZATION;
pub(crate) const GATEWAY_ACCEPT: HeaderName = HeaderName::from_static("grpcgateway-accept");
const BEARER: &str = "Bearer ";

/// What the metadata of a call says.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// Whether it is no use without a leader.
    pub(crate) needs_leader: bool,
    /// What the client says it speaks. An error if that is no text.
    version: Result<Option<Box<str>>, Canonical>,
}

impl Metadata {
    pub(crate) fn read(headers: &HeaderMap) -> Metadata {
        let version = headers.get(CLIENT_API_VERSION).map(|value| {
            let text = std::str::from_utf8(value.as_bytes());
            text.map(Box::from).map_err(|_| Canonical::InvalidClientAPIVersion)
        });
        Metadata {
            needs_leader: headers.get(HAS_LEADER).is_some_and(|value| value == "true"),
            version: version.transpose(),
        }
    }

    /// Whether a call may go on. `for_learners`: this one is also served by a member without a vote.
    pub(crate) fn admit(
        &self,
        shared: &Shared,
        kind: Kind,
        for_learners: bool,
    ) -> Result<(), Canonical> {
        if !for_learners && shared.server.is_learner() {
            return Err(Canonical::NotSupportedForLearner);
        }
        let version = self.version.as_ref().map_err(|error| *error)?;
        shared.metrics.versions.count(kind, version.as_deref());
        if self.needs_leader && shared.server.leader().is_none() {
            return Err(Canonical::NoLeader);
        }
        Ok(())
    }
}

/// Who asks. What counts if there are both a token and a certificate, and whether a certificate counts at all, is for others.
///
/// Compat: as in etcd, a certificate says nothing if the call comes through the gateway: it would be that of the member itself.
pub(crate) fn credentials(connection: &Connection, headers: &HeaderMap) -> Credentials {
    let token = headers.get(TOKEN).or_else(|| headers.get(AUTHORIZATION));
    let name = connection.common_name.as_deref();
    let name = name.filter(|_| !headers.contains_key(GATEWAY_ACCEPT));
    let (token, common_name) = (token.map(without_bearer), name.map(str::to_owned));
    Credentials { token, common_name, marks: None }
}

fn without_bearer(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    text.strip_prefix(BEARER).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use net::RemoteAddr;

    use super::*;

    fn who(name: Option<&str>, headers: &[(&'static str, &str)]) -> Credentials {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let connection =
            Connection::new(RemoteAddr::Unix, true).with_common_name(name.map(Into::into));
        credentials(&connection, &headers.collect())
    }

    fn token(headers: &[(&'static str, &str)]) -> Option<String> {
        who(None, headers).token
    }

    #[test]
    fn a_certificate_says_who_asks_unless_the_gateway_does() {
        let name = |name, headers: &[(&'static str, &str)]| who(name, headers).common_name;
        assert_eq!(name(None, &[]), None);
        assert_eq!(name(Some("alice"), &[]).as_deref(), Some("alice"));
        assert_eq!(name(Some(""), &[]).as_deref(), Some(""));
        assert_eq!(name(Some("alice"), &[("grpcgateway-accept", "*/*")]), None);
        let both = who(Some("alice"), &[("token", "a.1")]);
        assert_eq!(
            (both.token.as_deref(), both.common_name.as_deref()),
            (Some("a.1"), Some("alice"))
        );
    }

    #[test]
    fn a_token_has_two_places() {
        assert_eq!(token(&[]), None);
        assert_eq!(token(&[("token", "a.1")]).as_deref(), Some("a.1"));
        assert_eq!(token(&[("authorization", "Bearer a.1")]).as_deref(), Some("a.1"));
        assert_eq!(token(&[("authorization", "a.1")]).as_deref(), Some("a.1"));
        let both = [("authorization", "b.2"), ("token", "a.1")];
        assert_eq!(token(&both).as_deref(), Some("a.1"));
    }

    #[test]
    fn a_version_has_to_be_text() {
        let read = |bytes: &[u8]| {
            let value = HeaderValue::from_bytes(bytes).unwrap();
            Metadata::read(&HeaderMap::from_iter([(CLIENT_API_VERSION, value)])).version
        };
        assert_eq!(read(b"3.7"), Ok(Some("3.7".into())));
        assert_eq!(read("3.ä".as_bytes()), Ok(Some("3.ä".into())));
        assert_eq!(read(b"\xff"), Err(Canonical::InvalidClientAPIVersion));
    }
}

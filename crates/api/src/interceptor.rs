//! The check that runs before each handler, and the credentials of the caller.
//!
//! ```text
//!   learner               serves Status, serializable Range and Snapshot, nothing else
//!   client-api-version    counted
//!   hasleader: true       refused without a leader; such streams end when there was none for long
//!   token                 identifies the caller; also authorization, with or without "Bearer "
//!   certificate           identifies the caller, unless the call comes through the gateway
//! ```

use grpc::{Kind, Status};
use http::{HeaderMap, HeaderName, HeaderValue};
use net::Connection;
use server::Credentials;

use crate::context::Context;
use crate::errors::Canonical;

const HAS_LEADER: HeaderName = HeaderName::from_static("hasleader");
const CLIENT_API_VERSION: HeaderName = HeaderName::from_static("client-api-version");
const TOKEN: HeaderName = HeaderName::from_static("token");
const AUTHORIZATION: HeaderName = http::header::AUTHORIZATION;
pub(crate) const GATEWAY_ACCEPT: HeaderName = HeaderName::from_static("grpcgateway-accept");
const BEARER: &str = "Bearer ";

/// The metadata of a call that etcd's interceptors read.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    /// Whether the client requires a leader (`hasleader: true`).
    needs_leader: bool,
    /// The API version of the client; an error if it is not UTF-8.
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
}

/// Admits a unary call on voters.
pub(crate) fn unary<Q>(cx: &Context, _: &Q) -> Result<(), Status> {
    admit(cx, Kind::Unary, false)
}

/// Admits a unary call on voters, and on learners if the request allows it.
pub(crate) fn unary_on_learner<Q>(
    allows: impl FnOnce(&Q) -> bool,
) -> impl FnOnce(&Context, &Q) -> Result<(), Status> {
    |cx, request| admit(cx, Kind::Unary, allows(request))
}

/// Admits a stream on voters. Returns whether it ends when there is no leader for long.
pub(crate) fn stream(cx: &Context) -> Result<bool, Status> {
    admit(cx, Kind::BidiStream, false).map(|()| cx.metadata.needs_leader)
}

/// Admits a stream on voters and learners. Returns whether it ends when there is no leader for
/// long.
pub(crate) fn stream_on_learner(cx: &Context) -> Result<bool, Status> {
    admit(cx, Kind::ServerStream, true).map(|()| cx.metadata.needs_leader)
}

fn admit(cx: &Context, kind: Kind, on_learner: bool) -> Result<(), Status> {
    let shared = cx.shared();
    if !on_learner && shared.server.is_learner() {
        return Err(Canonical::NotSupportedForLearner.into());
    }
    let version = cx.metadata.version.as_ref().map_err(|error| *error)?;
    shared.metrics.versions.count(kind, version.as_deref());
    if cx.metadata.needs_leader && shared.server.leader().is_none() {
        return Err(Canonical::NoLeader.into());
    }
    Ok(())
}

/// Reads the token and the common name of the caller. The server decides which of them counts.
///
/// Compat: as in etcd, the certificate is ignored if the call comes through the gateway: it would
/// be that of the member itself.
pub(crate) fn credentials(connection: &Connection, headers: &HeaderMap) -> Credentials {
    let token = headers.get(TOKEN).or_else(|| headers.get(AUTHORIZATION));
    let name = connection.common_name.as_deref();
    let name = name.filter(|_| !headers.contains_key(GATEWAY_ACCEPT));
    let (token, common_name) = (token.map(without_bearer), name.map(str::to_owned));
    Credentials { token, common_name, timings: None }
}

fn without_bearer(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    text.strip_prefix(BEARER).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use net::RemoteAddr;

    use super::*;

    fn read(name: Option<&str>, headers: &[(&'static str, &str)]) -> Credentials {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let connection =
            Connection::new(RemoteAddr::Unix, true).with_common_name(name.map(Into::into));
        credentials(&connection, &headers.collect())
    }

    fn token(headers: &[(&'static str, &str)]) -> Option<String> {
        read(None, headers).token
    }

    #[test]
    fn a_certificate_identifies_the_caller_except_through_the_gateway() {
        let name = |name, headers: &[(&'static str, &str)]| read(name, headers).common_name;
        assert_eq!(name(None, &[]), None);
        assert_eq!(name(Some("alice"), &[]).as_deref(), Some("alice"));
        assert_eq!(name(Some(""), &[]).as_deref(), Some(""));
        assert_eq!(name(Some("alice"), &[("grpcgateway-accept", "*/*")]), None);
        let both = read(Some("alice"), &[("token", "a.1")]);
        assert_eq!(
            (both.token.as_deref(), both.common_name.as_deref()),
            (Some("a.1"), Some("alice"))
        );
    }

    #[test]
    fn the_token_header_precedes_authorization() {
        assert_eq!(token(&[]), None);
        assert_eq!(token(&[("token", "a.1")]).as_deref(), Some("a.1"));
        assert_eq!(token(&[("authorization", "Bearer a.1")]).as_deref(), Some("a.1"));
        assert_eq!(token(&[("authorization", "a.1")]).as_deref(), Some("a.1"));
        let both = [("authorization", "b.2"), ("token", "a.1")];
        assert_eq!(token(&both).as_deref(), Some("a.1"));
    }

    #[test]
    fn a_client_api_version_must_be_utf8() {
        let read = |bytes: &[u8]| {
            let value = HeaderValue::from_bytes(bytes).unwrap();
            Metadata::read(&HeaderMap::from_iter([(CLIENT_API_VERSION, value)])).version
        };
        assert_eq!(read(b"3.7"), Ok(Some("3.7".into())));
        assert_eq!(read("3.ä".as_bytes()), Ok(Some("3.ä".into())));
        assert_eq!(read(b"\xff"), Err(Canonical::InvalidClientAPIVersion));
    }
}

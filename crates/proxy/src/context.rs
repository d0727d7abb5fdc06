//! The context of a call, given to its handler beside the request.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use net::{Connection, SendBudget};
use prost::Message;

use crate::metrics::MethodMetrics;
use crate::observe::CallObserver;
use crate::server::ProxyState;
use crate::upstream::{Upstream, from_tonic};

/// A call of the `grpc` crate with our context and observer.
pub(crate) type Call<'a, B> = grpc::Call<'a, Context, CallObserver, B>;
/// The requests of a stream.
pub(crate) type Requests<B, Q> = grpc::Requests<B, Q, MethodMetrics>;
/// The replies of a stream.
pub(crate) type Replies = grpc::Replies<MethodMetrics>;

/// The metadata of a client that is passed on to members.
const PASSED_ON: [HeaderName; 4] =
    [TOKEN, http::header::AUTHORIZATION, HAS_LEADER, CLIENT_API_VERSION];
const TOKEN: HeaderName = HeaderName::from_static("token");
/// The metadata key of calls that need a leader.
pub(crate) const HAS_LEADER: HeaderName = HeaderName::from_static("hasleader");
const CLIENT_API_VERSION: HeaderName = HeaderName::from_static("client-api-version");
/// The API version of a client that names none.
const API_VERSION: HeaderValue = HeaderValue::from_static("3.7");

/// The context of a call.
#[derive(Debug)]
pub(crate) struct Context {
    shared: Arc<ProxyState>,
    metadata: HeaderMap,
    /// Replies of the connection that its client has not read.
    send_budget: Arc<SendBudget>,
}

impl Context {
    pub(crate) fn new(
        shared: &Arc<ProxyState>,
        connection: &Connection,
        headers: &HeaderMap,
    ) -> Context {
        let (shared, send_budget) = (Arc::clone(shared), Arc::clone(&connection.send_budget));
        Context { shared, metadata: metadata(headers), send_budget }
    }

    /// The replies of the connection that its client has not read.
    pub(crate) fn send_budget(&self) -> &SendBudget {
        &self.send_budget
    }

    /// The state that all calls share.
    pub(crate) fn shared(&self) -> &Arc<ProxyState> {
        &self.shared
    }

    /// The connections to members.
    pub(crate) fn upstream(&self) -> &Upstream {
        &self.shared.upstream
    }

    /// The metadata for calls to members.
    pub(crate) fn metadata(&self) -> &HeaderMap {
        &self.metadata
    }

    /// Creates a request to a member.
    pub(crate) fn request<Q: Message>(
        &self,
        message: Q,
    ) -> Result<tonic::Request<Q>, grpc::Status> {
        self.upstream().request(message, &self.metadata).map_err(from_tonic)
    }

    /// Returns whether the caller requires a leader (`hasleader: true`).
    pub(crate) fn needs_leader(&self) -> bool {
        self.metadata.get(HAS_LEADER).is_some_and(|value| value == "true")
    }
}

/// Returns the metadata for calls to members.
fn metadata(headers: &HeaderMap) -> HeaderMap {
    let mut metadata = HeaderMap::with_capacity(PASSED_ON.len());
    for name in PASSED_ON {
        if let Some(value) = headers.get(&name) {
            metadata.insert(name, value.clone());
        }
    }
    metadata.entry(CLIENT_API_VERSION).or_insert(API_VERSION);
    metadata
}

/// Returns whether metadata identifies a user.
pub(crate) fn has_token(metadata: &HeaderMap) -> bool {
    metadata.contains_key(TOKEN) || metadata.contains_key(http::header::AUTHORIZATION)
}

/// Returns metadata with the token alone: for a stream that serves several clients.
pub(crate) fn token_alone(metadata: &HeaderMap) -> HeaderMap {
    let mut token = metadata.clone();
    token.remove(HAS_LEADER);
    token.insert(CLIENT_API_VERSION, API_VERSION);
    token
}

/// Returns the metadata of calls that the proxy makes for itself.
pub(crate) fn own_metadata() -> HeaderMap {
    metadata(&HeaderMap::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_the_wish_for_a_leader_are_passed_on() {
        let headers = HeaderMap::from_iter([
            (TOKEN, HeaderValue::from_static("a.1")),
            (HAS_LEADER, HeaderValue::from_static("true")),
            (HeaderName::from_static("grpc-timeout"), HeaderValue::from_static("5S")),
        ]);
        let passed = metadata(&headers);
        assert_eq!(
            (passed.len(), &passed[TOKEN], &passed[HAS_LEADER]),
            (3, &"a.1".parse().unwrap(), &"true".parse().unwrap())
        );
        assert!(has_token(&passed) && !has_token(&own_metadata()));
        assert!(!token_alone(&passed).contains_key(HAS_LEADER));
    }
}

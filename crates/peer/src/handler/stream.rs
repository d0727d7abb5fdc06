//! `GET /raft/stream/<kind>/<id>`: opens a stream to the sender.

use std::sync::Arc;

use http::header::HeaderValue;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use server::SERVER_VERSION;
use types::MemberId;

use super::responses::{self, HandlerResponse};
use super::{Call, Route, refuse_method};
use crate::headers::{self, CLUSTER_ID, Incompatible, PEER_URLS, RAFT_TO, SERVER_VERSION_NAME};
use crate::stream::StreamKind;
use crate::stream::writer::StreamWriter;

/// The refusal of a stream.
struct StreamRefused(StatusCode, &'static str);

impl From<Incompatible> for StreamRefused {
    fn from(error: Incompatible) -> StreamRefused {
        StreamRefused(StatusCode::PRECONDITION_FAILED, error.text())
    }
}

impl Call<'_> {
    pub(super) fn stream(
        &self,
        rest: &str,
        request: &Request<Incoming>,
    ) -> Result<Response<StreamWriter>, Box<HandlerResponse>> {
        if let Some(refused) = refuse_method(Route::Stream(rest), request.method()) {
            return Err(Box::new(refused));
        }
        let attached = self.attach_stream(rest, request.headers());
        let mut headers = http::HeaderMap::new();
        headers.insert(SERVER_VERSION_NAME, HeaderValue::from_static(SERVER_VERSION));
        headers.insert(CLUSTER_ID, self.cluster_id());
        match attached {
            Ok(writer) => {
                let mut response = Response::new(writer);
                response.headers_mut().extend(headers);
                Ok(response)
            }
            Err(StreamRefused(status, text)) => {
                let mut refused = responses::error(status, text);
                refused.headers_mut().extend(headers);
                Err(Box::new(refused))
            }
        }
    }

    fn attach_stream(
        &self,
        rest: &str,
        headers: &http::HeaderMap,
    ) -> Result<StreamWriter, StreamRefused> {
        self.check(headers)?;
        let identity = &self.attached.identity;
        let Some((kind, from)) = split(rest) else {
            tracing::debug!(local_member_id = %identity.member, path = rest, "ignored unexpected streaming request path");
            return Err(StreamRefused(StatusCode::NOT_FOUND, "invalid path"));
        };
        let Some(from) = headers::id(from).map(MemberId) else {
            tracing::warn!(local_member_id = %identity.member, path = from, "failed to parse path into ID");
            return Err(StreamRefused(StatusCode::NOT_FOUND, "invalid from"));
        };
        if self.attached.local.is_removed(from) {
            tracing::warn!(local_member_id = %identity.member, remote_peer_id_from = %from, "rejected stream from remote peer because it was removed");
            return Err(StreamRefused(StatusCode::GONE, "removed member"));
        }
        let Some(peer) = self.shared.peers().get(from).cloned() else {
            // The sender may have joined since: the local member may be behind.
            if let Some(urls) = headers::text(headers, &PEER_URLS) {
                self.shared.add_remote(self.attached, from, urls);
            }
            tracing::warn!(local_member_id = %identity.member, remote_peer_id_from = %from, cluster_id = %identity.cluster, "failed to find remote peer in cluster");
            return Err(StreamRefused(StatusCode::NOT_FOUND, "error sender not found"));
        };
        let to = headers::text(headers, &RAFT_TO).unwrap_or_default();
        if to != identity.member.to_string() {
            tracing::warn!(local_member_id = %identity.member, remote_peer_id_header = to, remote_peer_id_from = %from, cluster_id = %identity.cluster, "ignored streaming request; ID mismatch");
            return Err(StreamRefused(StatusCode::PRECONDITION_FAILED, "to field mismatch"));
        }
        let connection = Arc::clone(self.connection);
        // A peer that was removed meanwhile learns it with its next request.
        StreamWriter::attach(&peer.context, peer.stream_queue(kind), connection)
            .ok_or(StreamRefused(StatusCode::NOT_FOUND, "error sender not found"))
    }
}

/// Splits the kind of stream and the id of the receiver.
fn split(rest: &str) -> Option<(StreamKind, &str)> {
    let (segment, from) = rest.split_once('/')?;
    let kind = StreamKind::ALL.into_iter().find(|kind| kind.segment() == segment)?;
    (!from.contains('/')).then_some((kind, from))
}

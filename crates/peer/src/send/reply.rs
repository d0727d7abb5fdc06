//! Evaluates a peer's reply to a posted message or snapshot.

use http::StatusCode;

use crate::client::{PeerReply, RequestError};
use crate::headers::{self, CLUSTER_ID, Incompatible};
use crate::peers::context::PeerContext;
use crate::peers::url_picker::PeerUrl;

/// The size limit of a reply, which contains only an error text.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The reason a post failed. The texts are etcd's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error(transparent)]
    Call(#[from] RequestError),
    #[error(transparent)]
    Incompatible(Incompatible),
    #[error("unhandled error {0:?} when precondition failed")]
    Precondition(String),
    #[error("the member has been permanently removed from the cluster")]
    Removed,
    #[error("stopped")]
    Stopped,
    #[error("unexpected http status {status} while posting to {url:?}")]
    Status { status: &'static str, url: String },
}

/// Returns an error unless the peer accepted the post.
pub(crate) fn check_reply(
    context: &PeerContext,
    reply: &PeerReply,
    url: &PeerUrl,
    path: &str,
) -> Result<(), PostError> {
    match reply.status {
        StatusCode::NO_CONTENT => Ok(()),
        StatusCode::FORBIDDEN => Err(PostError::Removed),
        StatusCode::PRECONDITION_FAILED => Err(precondition(context, reply)),
        status => Err(PostError::Status {
            status: status.canonical_reason().unwrap_or_default(),
            url: url.of(path),
        }),
    }
}

fn precondition(context: &PeerContext, reply: &PeerReply) -> PostError {
    let text = reply.text();
    let line = text.strip_suffix('\n').unwrap_or(&text);
    if line == Incompatible::Version.text() {
        tracing::error!(remote_peer_id = %context.id, "request sent was ignored by peer");
        return PostError::Incompatible(Incompatible::Version);
    }
    if line == Incompatible::ClusterId.text() {
        tracing::error!(
            remote_peer_id = %context.id,
            remote_peer_cluster_id = headers::text(&reply.headers, &CLUSTER_ID),
            local_member_cluster_id = %context.identity.cluster,
            "request sent was ignored due to cluster ID mismatch"
        );
        return PostError::Incompatible(Incompatible::ClusterId);
    }
    PostError::Precondition(text)
}

/// Handles a failed post: the next one tries another URL, and if the local member was removed, it
/// stops.
pub(crate) fn on_failure(context: &PeerContext, url: &PeerUrl, error: &PostError) {
    context.picker.unreachable(url);
    if matches!(error, PostError::Removed) {
        context.local.removed_by_others();
    }
}

//! How another member takes what is posted to it.

use http::StatusCode;

use crate::addresses::Url;
use crate::client::{CallError, Reply};
use crate::contact::Contact;
use crate::headers::{self, CLUSTER_ID, Incompatible};

/// What is read of an answer. There is nothing in it but why something is refused.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Why something was not taken. The texts are etcd's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error(transparent)]
    Call(#[from] CallError),
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

/// Whether an answer says that it was taken.
pub(crate) fn judge(
    contact: &Contact,
    reply: &Reply,
    url: &Url,
    path: &str,
) -> Result<(), PostError> {
    match reply.status {
        StatusCode::NO_CONTENT => Ok(()),
        StatusCode::FORBIDDEN => Err(PostError::Removed),
        StatusCode::PRECONDITION_FAILED => Err(precondition(contact, reply)),
        status => Err(PostError::Status {
            status: status.canonical_reason().unwrap_or_default(),
            url: url.of(path),
        }),
    }
}

fn precondition(contact: &Contact, reply: &Reply) -> PostError {
    let said = reply.text();
    let line = said.strip_suffix('\n').unwrap_or(&said);
    if line == Incompatible::Version.text() {
        tracing::error!(remote_peer_id = %contact.id, "request sent was ignored by peer");
        return PostError::Incompatible(Incompatible::Version);
    }
    if line == Incompatible::ClusterId.text() {
        tracing::error!(
            remote_peer_id = %contact.id,
            remote_peer_cluster_id = headers::text(&reply.headers, &CLUSTER_ID),
            local_member_cluster_id = %contact.identity.cluster,
            "request sent was ignored due to cluster ID mismatch"
        );
        return PostError::Incompatible(Incompatible::ClusterId);
    }
    PostError::Precondition(said)
}

/// It did not go well: another URL is tried next time, and if this member is none any more, it stops.
pub(crate) fn regret(contact: &Contact, url: &Url, error: &PostError) {
    contact.picker.unreachable(url);
    if matches!(error, PostError::Removed) {
        contact.local.removed_by_others();
    }
}

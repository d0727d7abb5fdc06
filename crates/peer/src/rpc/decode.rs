//! Decodes the responses of the peer RPCs.

use http::StatusCode;
use membership::reconfig::UnsafeReconfig;
use membership::{ClusterId, ConfChangeRefusal, Member};
use mvcc::KeyValueHash;
use serde::Deserialize;
use server::{PeerHash, PeerRequestError};

use super::RemoteCluster;
use crate::client::PeerReply;
use crate::headers::{self, CLUSTER_ID, Incompatible};

#[derive(Deserialize)]
pub(super) struct VersionsJson {
    #[serde(default)]
    pub(super) etcdserver: String,
    #[serde(default)]
    pub(super) etcdcluster: String,
}

pub(super) fn json<'a, T: Deserialize<'a>>(reply: &'a PeerReply) -> Result<T, PeerRequestError> {
    serde_json::from_slice(&reply.body).map_err(|error| PeerRequestError::Failed(error.to_string()))
}

pub(super) fn cluster(reply: &PeerReply) -> Result<RemoteCluster, String> {
    let members = serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
    let id = headers::text(&reply.headers, &CLUSTER_ID).and_then(headers::id);
    Ok(RemoteCluster { id: ClusterId(id.ok_or("failed to parse cluster ID")?), members })
}

#[derive(Deserialize)]
struct HashJson {
    #[serde(default)]
    header: HashHeaderJson,
    #[serde(default)]
    hash: u32,
    #[serde(default)]
    compact_revision: i64,
    #[serde(default)]
    hash_revision: i64,
}

#[derive(Default, Deserialize)]
struct HashHeaderJson {
    #[serde(default)]
    revision: i64,
}

pub(super) fn hash(reply: &PeerReply) -> Result<PeerHash, PeerRequestError> {
    let (text, status) = (reply.text(), reply.status);
    let has_error = |error: &dyn std::fmt::Display| text.contains(&error.to_string());
    match status {
        StatusCode::OK => {}
        StatusCode::BAD_REQUEST if has_error(&mvcc::Error::Compacted) => {
            return Err(mvcc::Error::Compacted.into());
        }
        StatusCode::BAD_REQUEST if has_error(&mvcc::Error::FutureRevision) => {
            return Err(mvcc::Error::FutureRevision.into());
        }
        StatusCode::PRECONDITION_FAILED if has_error(&Incompatible::ClusterId) => {
            return Err(PeerRequestError::ClusterIdMismatch);
        }
        _ => return Err(PeerRequestError::Failed(format!("unknown error: {text}"))),
    }
    let decoded: HashJson = json(reply)?;
    let HashJson { header, hash, compact_revision, hash_revision: revision } = decoded;
    let hash = KeyValueHash { hash, compact_revision, revision };
    Ok(PeerHash { revision: header.revision, hash })
}

pub(super) fn lease_response<T: prost::Message + Default>(
    reply: &PeerReply,
) -> Result<T, PeerRequestError> {
    match reply.status {
        StatusCode::OK => T::decode(reply.body.clone())
            .map_err(|error| PeerRequestError::Failed(format!("lease: {error}"))),
        StatusCode::REQUEST_TIMEOUT => Err(PeerRequestError::Timeout(LEASE_TIMEOUT.to_owned())),
        StatusCode::NOT_FOUND => Err(PeerRequestError::LeaseNotFound),
        _ => Err(PeerRequestError::Failed(format!("lease: unknown error({})", reply.text()))),
    }
}

/// The answer of a leader that is behind. The text is etcd's.
pub(crate) const LEASE_TIMEOUT: &str =
    "waiting for node to catch up its applied index has timed out";

pub(super) fn lease_mismatch(what: &str) -> PeerRequestError {
    PeerRequestError::Failed(format!("lease: {what} id mismatch"))
}

pub(super) fn promoted(reply: &PeerReply) -> Result<Vec<Member>, PeerRequestError> {
    let text = reply.text();
    let unknown = || PeerRequestError::Failed(format!("member promote: unknown error({text})"));
    match reply.status {
        StatusCode::OK => json(reply),
        StatusCode::NOT_FOUND => Err(ConfChangeRefusal::IdNotFound.into()),
        StatusCode::REQUEST_TIMEOUT => {
            Err(PeerRequestError::Timeout("etcdserver: request timed out".to_owned()))
        }
        StatusCode::PRECONDITION_FAILED => {
            if text.contains(&UnsafeReconfig::LearnerNotReady.to_string()) {
                return Err(UnsafeReconfig::LearnerNotReady.into());
            }
            if text.contains(&ConfChangeRefusal::MemberNotLearner.to_string()) {
                return Err(ConfChangeRefusal::MemberNotLearner.into());
            }
            Err(unknown())
        }
        _ => Err(unknown()),
    }
}

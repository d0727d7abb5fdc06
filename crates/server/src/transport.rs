//! The transport to peers, as a trait. The binary implements it with etcd's peer protocol, the
//! simulator with a simulated network.
//!
//! ```text
//!   raft loop ─ send ──────────► Transport ═ wire ═► Transport ─ Server::receive ─► raft loop
//!   snapshots ─ send_snapshot ─►                         ─ Server::receive_snapshot ─► member/snap
//!   requests ── request_… ─────►                         ─ Server::…_for_peer ─► answers
//!            ◄─ Server::report_… (unreachable peers, ended snapshot transfers)
//! ```

use std::fmt::Debug;
use std::io::{self, Write};
use std::pin::Pin;
use std::time::Duration;

use backend::FileSnapshot;
use membership::Member;
use mvcc::KeyValueHash;
use proto::etcdserverpb as pb;
use types::{LeaseId, MemberId};

/// Sends messages and requests to peers. No method blocks. A message that cannot be delivered is
/// dropped: consensus sends it again.
///
/// The requests have default implementations that fail, for a transport without them.
pub trait Transport: Send + Sync + Debug {
    /// Sends messages in order, each to the member that it names. Snapshots are sent separately.
    fn send(&self, messages: Vec<raft::Message>);

    /// Sends a snapshot to the member that its message names. The transport reports the outcome in
    /// any case, by [`Server::report_snapshot`](crate::Server::report_snapshot).
    fn send_snapshot(&self, snapshot: OutgoingSnapshot);

    /// Returns since when the local member is connected to a peer, on its monotonic clock.
    fn active_since(&self, member: MemberId) -> Option<Duration>;

    /// Updates the peers after a change of the membership.
    fn set_members(&self, members: &membership::Membership);

    /// Returns whether peers can be reached at all. Without them, no other voter may be added: the
    /// cluster would lose its quorum.
    fn reaches_peers(&self) -> bool {
        true
    }

    /// Requests the server and cluster version of a peer.
    fn request_versions(&self, of: &Member, within: Duration) -> PeerResponse<PeerVersions> {
        let _ = (of, within);
        no_response()
    }

    /// Requests the hash of the keys of a peer up to a revision.
    fn request_hash(&self, of: &Member, revision: i64, within: Duration) -> PeerResponse<PeerHash> {
        let _ = (of, revision, within);
        no_response()
    }

    /// Asks the leader to renew a lease. Returns its TTL in seconds.
    fn request_lease_renewal(
        &self,
        leader: &Member,
        lease: LeaseId,
        within: Duration,
    ) -> PeerResponse<i64> {
        let _ = (leader, lease, within);
        no_response()
    }

    /// Requests the remaining TTL of a lease from the leader, and its keys if wanted.
    fn request_lease_ttl(
        &self,
        leader: &Member,
        request: pb::LeaseTimeToLiveRequest,
        within: Duration,
    ) -> PeerResponse<pb::LeaseTimeToLiveResponse> {
        let _ = (leader, request, within);
        no_response()
    }

    /// Asks the leader to promote a learner, in the name of a token's user. Returns all members.
    fn request_promotion(
        &self,
        leader: &Member,
        learner: MemberId,
        token: Option<String>,
        within: Duration,
    ) -> PeerResponse<Vec<Member>> {
        let _ = (leader, learner, token, within);
        no_response()
    }
}

/// A future of a peer's response. The request is sent at once; dropping the future cancels it. The
/// future needs no particular runtime and ends within the given time.
pub type PeerResponse<T> = Pin<Box<dyn Future<Output = Result<T, PeerRequestError>> + Send>>;

/// The failure of a request to a peer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PeerRequestError {
    /// The lease does not exist.
    #[error("lease not found")]
    LeaseNotFound,
    /// The peer was too far behind to look up a lease, or the response took too long.
    #[error("{0}")]
    Timeout(String),
    /// The conf change was refused.
    #[error(transparent)]
    Members(#[from] membership::ConfChangeRefusal),
    /// The learner is not in sync with the leader.
    #[error(transparent)]
    Unsafe(#[from] membership::reconfig::UnsafeReconfig),
    /// The revision is compacted, or in the future.
    #[error(transparent)]
    Keys(#[from] mvcc::Error),
    /// The peer belongs to another cluster.
    #[error("etcdserver: cluster ID mismatch")]
    ClusterIdMismatch,
    /// The peer cannot be reached, or its response is invalid.
    #[error("{0}")]
    Failed(String),
}

/// The versions of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerVersions {
    /// The server version, such as `3.7.0`.
    pub server: String,
    /// The cluster version, such as `3.7.0`, or `not_decided`.
    pub cluster: String,
}

/// The hash of the keys of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerHash {
    /// The revision of its store.
    pub revision: i64,
    /// The hash of its keys.
    pub hash: KeyValueHash,
}

/// A snapshot to send to a peer: a message and the database.
#[derive(Debug)]
pub struct OutgoingSnapshot {
    /// The message, with the index of the database.
    pub message: raft::Message,
    /// The database.
    pub image: DatabaseImage,
}

/// A consistent image of a database. It pins the pages that it reads: do not keep it.
#[derive(Debug)]
pub struct DatabaseImage(FileSnapshot);

impl DatabaseImage {
    pub(crate) fn new(snapshot: FileSnapshot) -> DatabaseImage {
        DatabaseImage(snapshot)
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// Writes the image piece by piece. Returns the number of bytes.
    ///
    /// # Errors
    /// The writer failed.
    pub fn write_to(&self, to: &mut dyn Write) -> io::Result<u64> {
        self.0.write_to(to)
    }
}

/// The transport of the only member of a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

fn no_response<T: Send + 'static>() -> PeerResponse<T> {
    Box::pin(std::future::ready(Err(PeerRequestError::Failed(
        "this member has no peer transport".to_owned(),
    ))))
}

impl Transport for NoPeers {
    fn send(&self, _: Vec<raft::Message>) {}

    fn send_snapshot(&self, _: OutgoingSnapshot) {}

    fn active_since(&self, _: MemberId) -> Option<Duration> {
        None
    }

    fn set_members(&self, _: &membership::Membership) {}

    fn reaches_peers(&self) -> bool {
        false
    }
}

//! How members reach each other. The server declares what it needs; the binary plugs in what speaks etcd's peer protocol, a simulation its own.
//!
//! ```text
//!   raft loop ──── send ─────────────► Transport ══ wire ══► Transport ── Server::receive ───────────► raft loop
//!   snapshots ──── send_snapshot ────►                                 ── Server::receive_snapshot ──► member/snap/<index>.snap.db
//!   requests ───── ask_for_… ────────►                                 ── Server::…_for_peer ────────► answers
//!              ◄── Server::report_… ── (what did not arrive)
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

/// Carries messages to other members, and questions. Nothing here waits, and what cannot be delivered is dropped: consensus sends it again.
///
/// A transport that knows no questions gets no answers.
pub trait Transport: Send + Sync + Debug {
    /// Sends messages, in order, each to the member it names. Snapshots are not among them.
    fn send(&self, messages: Vec<raft::Message>);

    /// Sends a snapshot to the member that its message names. Whether it arrived is told by [`Server::report_snapshot`](crate::Server::report_snapshot), in any case.
    fn send_snapshot(&self, snapshot: OutgoingSnapshot);

    /// Whether, and since when, this member is connected to another: a moment of the member's monotonic clock.
    fn active_since(&self, member: MemberId) -> Option<Duration>;

    /// Members came, went or moved.
    fn set_members(&self, members: &membership::Membership);

    /// Whether there is any way to others. Where there is none, nobody else gets a vote: the cluster would never decide anything again.
    fn reaches_peers(&self) -> bool {
        true
    }

    /// Asks a member which release it runs, and which version it thinks the cluster speaks.
    fn request_versions(&self, of: &Member, within: Duration) -> PeerResponse<PeerVersions> {
        let _ = (of, within);
        no_response()
    }

    /// Asks a member what it holds up to a revision.
    fn request_hash(&self, of: &Member, revision: i64, within: Duration) -> PeerResponse<PeerHash> {
        let _ = (of, revision, within);
        no_response()
    }

    /// Has the leader renew a lease. Returns its time to live, in seconds.
    fn request_lease_renewal(
        &self,
        leader: &Member,
        lease: LeaseId,
        within: Duration,
    ) -> PeerResponse<i64> {
        let _ = (leader, lease, within);
        no_response()
    }

    /// Asks the leader how long a lease has to live, and if wanted for its keys.
    fn request_lease_ttl(
        &self,
        leader: &Member,
        request: pb::LeaseTimeToLiveRequest,
        within: Duration,
    ) -> PeerResponse<pb::LeaseTimeToLiveResponse> {
        let _ = (leader, request, within);
        no_response()
    }

    /// Has the leader make a voter of a learner, for whoever has a token. Returns all members.
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

/// An answer that is waited for. The question is asked at once; whoever drops this gives it up. It needs no runtime, and ends in the time that was given for it.
pub type PeerResponse<T> = Pin<Box<dyn Future<Output = Result<T, PeerRequestError>> + Send>>;

/// Why another member did not answer a question.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PeerRequestError {
    /// There is no such lease.
    #[error("lease not found")]
    LeaseNotFound,
    /// A lease was looked for by a member that was behind, or an answer took too long.
    #[error("{0}")]
    Timeout(String),
    /// A change of members that makes no sense.
    #[error(transparent)]
    Members(#[from] membership::ConfChangeRefusal),
    /// A learner that lags.
    #[error(transparent)]
    Unsafe(#[from] membership::reconfig::UnsafeReconfig),
    /// A revision that is not there any more, or not yet.
    #[error(transparent)]
    Keys(#[from] mvcc::Error),
    /// It is of another cluster.
    #[error("etcdserver: cluster ID mismatch")]
    ClusterIdMismatch,
    /// It cannot be reached, or says something that is no answer.
    #[error("{0}")]
    Failed(String),
}

/// What a member runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerVersions {
    /// Its release, such as `3.7.1`.
    pub server: String,
    /// What it thinks the cluster speaks, such as `3.7.0`, or `not_decided`.
    pub cluster: String,
}

/// What a member holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerHash {
    /// The revision of its store.
    pub revision: i64,
    /// The hash of its keys.
    pub hash: KeyValueHash,
}

/// A snapshot on its way to another member: a message, and behind it the database.
#[derive(Debug)]
pub struct OutgoingSnapshot {
    /// The message, which says how far the database is.
    pub message: raft::Message,
    /// The database.
    pub image: DatabaseImage,
}

/// A database as it was at one moment. It holds on to what it reads, so it is not to be kept.
#[derive(Debug)]
pub struct DatabaseImage(FileSnapshot);

impl DatabaseImage {
    pub(crate) fn new(snapshot: FileSnapshot) -> DatabaseImage {
        DatabaseImage(snapshot)
    }

    /// The number of its bytes.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// Writes it somewhere, piece by piece. Returns how many bytes that were.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_to(&self, to: &mut dyn Write) -> io::Result<u64> {
        self.0.write_to(to)
    }
}

/// The transport of a member that is alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

fn no_response<T: Send + 'static>() -> PeerResponse<T> {
    Box::pin(std::future::ready(Err(PeerRequestError::Failed(
        "this member reaches no other".to_owned(),
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

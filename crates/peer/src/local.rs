//! What this crate needs of the member that it speaks for. A trait, so that tests can have members that do as they are told.

use std::fmt::Debug;
use std::io::Read;
use std::pin::Pin;
use std::time::Duration;

use membership::{ClusterId, Member};
use proto::etcdserverpb as pb;
use server::{Error, PeerHash, ReceiveError, ReceiveSnapshotError, Server};
use types::{LeaseId, MemberId};

/// What takes time.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The member that messages are sent and received for.
pub(crate) trait Local: Send + Sync + Debug {
    fn id(&self) -> MemberId;
    fn cluster_id(&self) -> ClusterId;
    /// A moment of the member's monotonic clock.
    fn now(&self) -> Duration;
    /// All members, in order.
    fn members(&self) -> Vec<Member>;
    fn is_removed(&self, member: MemberId) -> bool;

    fn receive(&self, message: raft::Message) -> Result<(), ReceiveError>;
    /// Waits for the disk, and for whoever the database is read from.
    fn receive_snapshot(
        &self,
        message: raft::Message,
        database: &mut dyn Read,
    ) -> Result<u64, ReceiveSnapshotError>;
    fn report_unreachable(&self, member: MemberId);
    fn report_snapshot(&self, to: MemberId, arrived: bool);
    fn removed_by_others(&self);

    fn renew(&self, id: LeaseId) -> Answer<'_, i64>;
    fn lease(&self, r: pb::LeaseTimeToLiveRequest) -> Answer<'_, pb::LeaseTimeToLiveResponse>;
    fn promote(&self, token: Option<String>, id: MemberId) -> Answer<'_, Vec<Member>>;
    fn hash(&self, revision: i64) -> Answer<'_, PeerHash>;
    fn is_downgrading(&self) -> Answer<'_, bool>;
}

impl Local for Server {
    fn id(&self) -> MemberId {
        self.local()
    }

    fn cluster_id(&self) -> ClusterId {
        Server::cluster_id(self)
    }

    fn now(&self) -> Duration {
        Server::now(self)
    }

    fn members(&self) -> Vec<Member> {
        self.state().cluster.now().members().cloned().collect()
    }

    fn is_removed(&self, member: MemberId) -> bool {
        self.state().cluster.now().is_removed(member)
    }

    fn receive(&self, message: raft::Message) -> Result<(), ReceiveError> {
        Server::receive(self, message)
    }

    fn receive_snapshot(
        &self,
        message: raft::Message,
        database: &mut dyn Read,
    ) -> Result<u64, ReceiveSnapshotError> {
        Server::receive_snapshot(self, message, database)
    }

    fn report_unreachable(&self, member: MemberId) {
        Server::report_unreachable(self, member);
    }

    fn report_snapshot(&self, to: MemberId, arrived: bool) {
        Server::report_snapshot(self, to, arrived);
    }

    fn removed_by_others(&self) {
        Server::removed_by_others(self);
    }

    fn renew(&self, id: LeaseId) -> Answer<'_, i64> {
        Box::pin(self.renew_for_peer(id))
    }

    fn lease(&self, r: pb::LeaseTimeToLiveRequest) -> Answer<'_, pb::LeaseTimeToLiveResponse> {
        Box::pin(self.lease_for_peer(r))
    }

    fn promote(&self, token: Option<String>, id: MemberId) -> Answer<'_, Vec<Member>> {
        Box::pin(self.promote_for_peer(token, id))
    }

    fn hash(&self, revision: i64) -> Answer<'_, PeerHash> {
        Box::pin(self.hash_for_peer(revision))
    }

    fn is_downgrading(&self) -> Answer<'_, bool> {
        Box::pin(Server::is_downgrading(self))
    }
}
